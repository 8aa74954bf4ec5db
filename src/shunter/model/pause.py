"""What is held back: jobs of a type, or all that a worker or all workers of a version would get.

A pause is a record that all dispatchers read; none of them starts what it covers, and what runs
goes on.
Which record that is, and whom it covers, is decided here; `dispatch/` goes by it. Pure.
Rules: docs/spec/dispatcher.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from shunter.errors import PauseRefused
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.json_record import JsonRecord
from shunter.model.key import Key
from shunter.model.record import Record, RecordKind
from shunter.model.worker import Worker

MAX_PAUSES = 1000


class PauseTarget(StrEnum):
    """What a pause is about."""

    TYPE = "type"
    WORKER = "worker"
    VERSION = "version"


class Pause(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pause; `by` names the key of who asked for it."""

    target: PauseTarget
    name: str
    at: float = 0.0
    by: str = ""

    @property
    def id(self) -> str:
        """Its name among all pauses."""
        return pause_id(self.target, self.name)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dict that `json.dumps` takes, with its id."""
        target = self.target.value
        return {
            "id": self.id,
            "target": target,
            "name": self.name,
            "at": self.at,
            "by": self.by or None,
        }


def pause_id(target: PauseTarget, name: str) -> str:
    """Return the name of a pause among all pauses."""
    return f"{target}:{name}"


class Pauses(Struct, frozen=True):
    """All pauses, as a dispatcher goes by them."""

    types: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()

    def drains(self, worker: Worker) -> bool:
        """True if a worker gets nothing new."""
        return worker.id in self.workers or worker.version in self.versions


NO_PAUSES = Pauses()


def all_of(pauses: Iterable[Pause]) -> Pauses:
    """Return what dispatchers go by."""
    names: dict[PauseTarget, set[str]] = {target: set() for target in PauseTarget}
    for pause in pauses:
        names[pause.target].add(pause.name)
    return Pauses(*(frozenset(names[target]) for target in PauseTarget))


def pauses_in(records: Iterable[Record]) -> list[Pause]:
    """Read the pauses that records hold, by rising names."""
    found = (msgspec.json.decode(it.document or b"", type=Pause) for it in records)
    return sorted(found, key=lambda pause: pause.id)


def record_of(pause: Pause) -> Record:
    """Return the record of a new pause."""
    return Record(kind=RecordKind.PAUSE, name=pause.id, document=msgspec.json.encode(pause))


def check_name(target: PauseTarget, name: str) -> None:
    """Raise PauseRefused if this can't name what is to be held back."""
    if not is_name(name):
        raise PauseRefused(target, name[:64], f"that is no name; send {NAME_RULE}")


def check_worker(pause: Pause, workers: Iterable[Worker]) -> None:
    """Raise PauseRefused if no worker is meant by a pause: a slip would drain nobody, silently."""
    known = [worker for worker in workers if not worker.is_dead]
    if pause.target is PauseTarget.WORKER and pause.name not in {it.id for it in known}:
        raise PauseRefused(
            pause.target, pause.name, "no worker has this id; `shunter workers` lists them"
        )
    versions = {worker.version for worker in known if worker.version}
    if pause.target is PauseTarget.VERSION and pause.name not in versions:
        there = ", ".join(sorted(versions)[:10]) or "none; an app has one by App(version=...)"
        raise PauseRefused(pause.target, pause.name, f"no worker has it; versions here: {there}")


def key_fault(key: Key | None, what: str = "a pause holds for all") -> str:
    """Say why a key may not do what concerns all namespaces; nothing if it may."""
    if key is None or not key.namespace:
        return ""
    return (
        f"key {key.name!r} is of namespace {key.namespace!r}, and {what}; use an "
        "operator's key without a namespace"
    )
