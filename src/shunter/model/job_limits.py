"""How many jobs of a type may run at once and start in a while, and by which key they take turns.

A handler declares it, and people may change it while jobs run. Jobs say by their `keys` whose
they are; nobody opens a payload for that. All that one type declares goes by one key, so that
its waiting jobs stand in lanes, one for each value of the key (`lane_claim.py`).
Pure. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

MAX_PLACES = 100_000
MAX_RATE = 1_000_000
MIN_PER_SECONDS = 1.0
MAX_PER_SECONDS = 31 * 86400.0
MAX_KEYS = 8
MAX_VALUE_LENGTH = 256

CREDIT_SECONDS = 0.5
"""So late a start may be without its token being lost. What that adds is taken off the rate: in
no span of `per` seconds are there more starts than `count`."""

_KEY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
KEY_NAME_RULE = "1 to 64 letters, digits or any of _ -, beginning with a letter or _"


class Limit(Struct, frozen=True, omit_defaults=True):
    """How many jobs of a type run at once: for each value of the key `by`, and in `total`.

    Without `by` the first number is the total.
    """

    at_once: int | None = None
    by: str = ""
    total: int | None = None


class Rate(Struct, frozen=True, omit_defaults=True):
    """How many jobs of a type start in `per` seconds, for each value of the key `by`."""

    count: int
    per: float = 1.0
    by: str = ""

    @property
    def interval(self) -> float:
        """How far apart starts are when jobs are waiting all the time."""
        return (self.per + CREDIT_SECONDS) / self.count

    def taken(self, next_at: float, *, now: float) -> float | None:
        """Return when the next start is due after one now, or None where none is due yet."""
        return max(next_at, now - CREDIT_SECONDS) + self.interval if next_at <= now else None


class JobLimits(Struct, frozen=True, omit_defaults=True):
    """All that one type declares; `fair` is the key by whose values jobs take turns."""

    limit: Limit | None = None
    rate: Rate | None = None
    fair: str = ""

    @property
    def key(self) -> str:
        """The one key that all goes by; empty where there is none."""
        if self.limit is not None and self.limit.by:
            return self.limit.by
        if self.rate is not None and self.rate.by:
            return self.rate.by
        return self.fair

    @property
    def per_key(self) -> int | None:
        """How many may run at once for each value of the key."""
        return self.limit.at_once if self.limit and self.limit.by else None

    @property
    def total(self) -> int | None:
        """How many may run at once of the whole type."""
        if self.limit is None:
            return None
        return self.limit.total if self.limit.by else self.limit.at_once or self.limit.total

    def lane(self, keys: Mapping[str, str]) -> str:
        """Return where a job with these keys waits; without the key, in a lane of its own kind."""
        key = self.key
        return f"{key}={keys.get(key, '')}" if key else ""

    def is_lane(self, lane: str) -> bool:
        """True if jobs may wait there: under another declaration lanes have other names."""
        return lane.startswith(f"{self.key}=") if self.key else not lane

    def bucket(self, lane: str) -> str | None:
        """Return from which bucket a start in this lane takes its token."""
        if self.rate is None:
            return None
        return lane if self.rate.by else ""

    @property
    def text(self) -> str:
        """What is limited, in words."""
        parts = []
        if self.per_key is not None:
            parts.append(f"{self.per_key:,} at once by {self.key}")
        if self.total is not None:
            parts.append(f"{self.total:,} at once")
        if (rate := self.rate) is not None:
            by = f" by {rate.by}" if rate.by else ""
            parts.append(f"{rate.count:,} in {rate.per:g} s{by}")
        if self.fair:
            parts.append(f"turns by {self.fair}")
        return ", ".join(parts) or "none"


def limit_faults(limits: JobLimits) -> Iterator[tuple[str, str]]:
    """Yield the fields that are out of range, each with its reason."""
    if limits.limit is not None:
        yield from _places_faults(limits.limit)
    if (rate := limits.rate) is not None:
        if not _is_number(rate.count) or not 1 <= rate.count <= MAX_RATE:
            yield "rate.count", f"found {rate.count!r}; send 1 to {MAX_RATE}"
        is_span = isinstance(rate.per, int | float) and math.isfinite(rate.per)
        if not is_span or not MIN_PER_SECONDS <= rate.per <= MAX_PER_SECONDS:
            least, most = MIN_PER_SECONDS, MAX_PER_SECONDS
            yield "rate.per", f"found {rate.per!r}; send seconds from {least:g} to {most:.0f}"
    named = {
        "limit.by": limits.limit.by if limits.limit else "",
        "rate.by": limits.rate.by if limits.rate else "",
        "fair": limits.fair,
    }
    for field, name in named.items():
        if name != "" and not is_key_name(name):
            yield field, f"found {_shown(name)}; name a key: {KEY_NAME_RULE}"
        elif name not in ("", limits.key):
            first = next(field for field, it in named.items() if it)
            yield (
                field,
                f"found {name!r} beside {first} {limits.key!r}; let all go by one key",
            )


def _places_faults(limit: Limit) -> Iterator[tuple[str, str]]:
    if limit.at_once is None and limit.total is None:
        yield "limit", "found no number; say how many jobs may run at once, as in Limit(5)"
    for field in ("at_once", "total"):
        found = getattr(limit, field)
        if found is not None and (not _is_number(found) or not 1 <= found <= MAX_PLACES):
            yield f"limit.{field}", f"found {found!r}; send 1 to {MAX_PLACES}"
            return
    if limit.by and limit.at_once is None:
        yield "limit.at_once", f"missing beside by={limit.by!r}; say how many for each value of it"
    if limit.at_once is not None and limit.total is not None:
        if not limit.by:
            yield "limit.by", "missing; say by which key the first number counts, or leave it out"
        elif limit.total < limit.at_once:
            fact = f"found {limit.total}, fewer than the {limit.at_once} of one key"
            yield "limit.total", f"{fact}; send as many or more"


def key_faults(keys: object) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the keys of a job."""
    if not isinstance(keys, Mapping):
        yield "keys", f'found {_shown(keys)}; send names and values, as in {{"tenant": "acme"}}'
        return
    if len(keys) > MAX_KEYS:
        yield "keys", f"found {len(keys)}; send {MAX_KEYS} at most"
        return
    for name, value in keys.items():
        if not is_key_name(name):
            yield "keys", f"found the name {_shown(name)}; a name is {KEY_NAME_RULE}"
        elif not isinstance(value, str):
            yield f"keys.{name}", f"found {_shown(value)}; send text"
        elif not 1 <= len(value) <= MAX_VALUE_LENGTH:
            yield f"keys.{name}", f"{len(value)} characters; send 1 to {MAX_VALUE_LENGTH}"
        elif not value.isprintable():
            yield f"keys.{name}", f"found {_shown(value)}; send printable characters only"


def is_key_name(name: object) -> bool:
    """True if a key may have this name."""
    return isinstance(name, str) and _KEY_NAME.match(name) is not None


def _is_number(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _shown(found: object) -> str:
    return repr(found)[:64]


def place_text(job_type: str, lane: str, number: int) -> str:
    """Name a place under the limit of a key. No type has a space in it."""
    return f"{job_type} {lane} {number}"


def total_text(job_type: str, number: int) -> str:
    """Name a place under the limit of a whole type."""
    return f"{job_type} {number}"


def place_number(text: str) -> int:
    """Read the number from the name of a place of either kind."""
    return int(text[text.rindex(" ") + 1 :])


def texts_between(job_type: str) -> tuple[str, str]:
    """Return between which two texts all places of a type are, in the order of code points."""
    return f"{job_type} ", f"{job_type}!"


def lanes_held(job_type: str, texts: Iterable[str]) -> dict[str, set[int]]:
    """Read which numbers are taken in each lane."""
    held: dict[str, set[int]] = {}
    for text in texts:
        lane, _, number = text[len(job_type) + 1 :].rpartition(" ")
        held.setdefault(lane, set()).add(int(number))
    return held


def totals_held(job_type: str, texts: Iterable[str]) -> set[int]:
    """Read which numbers are taken of the whole type."""
    return {int(text[len(job_type) + 1 :]) for text in texts}
