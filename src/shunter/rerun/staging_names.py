"""How staging is named: after its target, its run and its attempt, legally everywhere.

A name is legal for a file, an SQL identifier and a MongoDB collection, and at most 128 long:

    staging_TARGET_RUN_OWNER_ATTEMPT_OPENED_UNIQUE[.SUFFIX]

TARGET and RUN are there for people, shortened and with unsafe characters replaced. OWNER, a hash
of target, run and job, is what is compared: several jobs of one run may stage for one target.
OPENED is a time, which SQLite and MongoDB don't keep for what they store. UNIQUE differs each
time: no two openings ever write into the same place, whatever their attempts.
Pure: time and randomness are arguments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from shunter.errors import StagingError, Superseded

PREFIX = "staging_"
DROPPED = "dropped_"
"""Begins the name of a folder that is being removed, which takes more than one step."""
ASIDE = "aside_"
"""Begins the name of a folder that was moved away to make room for the new one."""

MAX_ATTEMPT = 10**10 - 1

_TARGET_LENGTH, _RUN_LENGTH = 32, 24
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9]{1,10})\Z")
_NAME = re.compile(
    r"(?P<kind>staging_|dropped_|aside_)[A-Za-z0-9_]*_(?P<owner>[0-9a-f]{16})"
    r"_(?P<attempt>\d{1,10})_(?P<opened>[0-9a-f]{8})_[0-9a-f]{8}(\.[A-Za-z0-9]{1,10})?\Z"
)


class Owner(NamedTuple):
    """Who stages: an attempt of a job in a run."""

    run_id: str
    job_id: str
    attempt: int


class StagingName(NamedTuple):
    """What can be read from a name."""

    kind: str
    owner: str
    attempt: int
    opened: float


def owner_key(target: str, owner: Owner) -> str:
    """Return what all attempts of one job have in common where they stage for one target."""
    parts = repr((owner.run_id, owner.job_id, target))
    return hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()


def staging_name(target: str, owner: Owner, *, opened: float, unique: int) -> str:
    """Return a name for what an attempt stages; `unique` are 32 random bits."""
    if not 0 <= owner.attempt <= MAX_ATTEMPT:
        raise StagingError(
            f"attempt {owner.attempt} can't be part of a name; attempts are 0 to {MAX_ATTEMPT}"
        )
    readable = f"{_readable(target, _TARGET_LENGTH)}_{_readable(owner.run_id, _RUN_LENGTH)}"
    moment = min(max(int(opened), 0), 0xFFFFFFFF)
    return (
        f"{PREFIX}{readable}_{owner_key(target, owner)}_{owner.attempt}"
        f"_{moment:08x}_{unique & 0xFFFFFFFF:08x}"
    )


def suffix_of(target: str) -> str:
    """Return the ending of a file's name that tools may look at, where it is a plain one."""
    found = _SUFFIX.search(target[1:])
    return found[1] if found else ""


def read_name(name: str) -> StagingName | None:
    """Read a name, or return None if it is not one of ours."""
    found = _NAME.match(name)
    if found is None:
        return None
    return StagingName(
        found["kind"], found["owner"], int(found["attempt"]), float(int(found["opened"], 16))
    )


def left_behind(names: Iterable[str], target: str, owner: Owner) -> list[str]:
    """Return what this attempt must drop before it begins: all of its job's up to itself.

    Raises Superseded if there is something of a newer attempt: then this one is the old one.
    """
    key, found = owner_key(target, owner), []
    for name in names:
        known = read_name(name)
        if known is None or known.owner != key:
            continue
        if known.attempt > owner.attempt and known.kind == PREFIX:
            raise Superseded(target, owner.attempt, f"attempt {known.attempt} stages the same")
        found.append(name)
    return found


def overdue(names: Iterable[str], *, now: float, older_than: float) -> list[str]:
    """Return what was opened longer ago than that, by whomever."""
    if not older_than > 0:
        raise StagingError(
            f"older_than is {older_than}; give seconds, more than your longest job takes: "
            "what is younger may belong to a job that runs"
        )
    known = ((name, read_name(name)) for name in names)
    return [name for name, read in known if read is not None and now - read.opened > older_than]


def _readable(text: str, length: int) -> str:
    return _UNSAFE.sub("_", text)[:length].strip("_") or "x"
