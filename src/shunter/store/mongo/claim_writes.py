"""What a claim writes: into each job that it takes, what changes in it.

Most jobs of a claim become the same: in progress on a worker, from now on. So those whose changes
are the same are changed by one statement, which costs the server a fifth less than a document for
each of them (`swapping.py`), and its client much less. Where hardly any two are the same, each gets
its document.
A job is taken only if it is as it was seen: still in the queue, or parked and free to start, at the
same revision, with a stamp that was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from bson.raw_bson import RawBSONDocument
from msgspec import Struct
from pymongo import UpdateMany

from shunter.model.job import Job
from shunter.model.queue_order import alarm, deadline, limit_place, place, total_place
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, Document, replacing
from shunter.store.mongo.swapping import KEPT, MOST_BYTES, swap

FEWEST_A_GROUP = 16
"""With fewer jobs than that in a statement, on average, a document for each is cheaper."""

QUEUED: Document = {"ready": {"$gte": LOWEST}}

FREE: Document = {"wakes": {"$gte": LOWEST}}
"""A child that is parked still, and can be started as it is."""

_KEPT_QUEUED: Document = {**KEPT, "result": "$result"}
_KEPT_FREE: Document = {
    **_KEPT_QUEUED,
    "after": {"$unsetField": {"field": "pending", "input": "$after"}},
}

_BYTES = frozenset({"payload", "result", "parents"})
"""What no claim changes, or no document has."""

_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    if field.default_factory is msgspec.NODEFAULT
    else field.default_factory()
    for field in msgspec.structs.fields(Job)
    if field.name not in _BYTES
}
_NAMES = tuple(_DEFAULTS)
_VALUES = attrgetter(*_NAMES)

_ALWAYS_WRITTEN = frozenset({"status", "revision", "attempt", "priority"})


_OF_INDEXES = (
    ("alarm", alarm),
    ("place", place),
    ("limit_place", limit_place),
    ("total_place", total_place),
)


class _Taken(Struct, frozen=True, gc=False):
    """A job as it was seen in the store, with its stamp there, and as it is to be."""

    seen: Job
    job: Job
    stamp: str
    is_parked: bool


class ClaimWrites:
    """The writes of one bid, which all bear its stamp. Harmless when repeated."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._taken: dict[str, _Taken] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, seen: Job, job: Job, *, stamp: str, is_parked: bool) -> None:
        self._taken[job.id] = _Taken(seen, job, stamp, is_parked)

    @property
    def free(self) -> list[str]:
        """The ids of those that were parked, and free to start."""
        return [name for name, taken in self._taken.items() if taken.is_parked]

    async def write(self, connection: MongoConnection) -> set[str]:
        """Write all of it, and return the ids of those jobs that stand as written here."""
        groups: dict[bytes, list[_Taken]] = {}
        for taken in self._taken.values():
            groups.setdefault(msgspec.msgpack.encode(self._change(taken)), []).append(taken)
        if len(groups) * FEWEST_A_GROUP > len(self._taken) + FEWEST_A_GROUP:
            return await self._write_each(connection)
        writes = [self._statement(group) for group in groups.values()]
        result = await connection.patiently(
            partial(connection.jobs.bulk_write, writes, ordered=False)
        )
        if result.modified_count == len(self._taken):
            return set(self._taken)
        mine = {"_id": {"$in": list(self._taken)}, "stamp": self._stamp}
        query = connection.jobs.find(mine, {"_id": True})
        return {found["_id"] for found in await connection.all_of(query)}

    def _change(self, taken: _Taken) -> tuple[dict[str, Any], list[str]]:
        """What is to be set in a document, and what goes from it."""
        fields: dict[str, Any] = {"stamp": self._stamp, "held": True}
        gone = ["wakes", "parked", "after.pending"] if taken.is_parked else ["ready"]
        if deadline(taken.seen) is not None:
            gone.append("deadline")
        for name, old, new in zip(_NAMES, _VALUES(taken.seen), _VALUES(taken.job), strict=True):
            if new is old or new == old:
                continue
            if new == _DEFAULTS[name] and name not in _ALWAYS_WRITTEN:
                gone.append(name)
            else:
                fields[name] = new
        for name, index in _OF_INDEXES:
            if (value := index(taken.job)) is not None:
                fields[name] = value
        return fields, gone

    def _statement(self, group: Sequence[_Taken]) -> UpdateMany:
        fields, gone = self._change(group[0])
        where = {
            "_id": {"$in": [taken.job.id for taken in group]},
            **(FREE if group[0].is_parked else QUEUED),
            "revision": group[0].seen.revision,
            "stamp": {"$in": list({taken.stamp for taken in group})},
        }
        changed: Document = msgspec.to_builtins(fields, builtin_types=(bytes,))
        return UpdateMany(where, {"$set": changed, "$unset": dict.fromkeys(gone, True)})

    async def _write_each(self, connection: MongoConnection) -> set[str]:
        written: set[str] = set()
        for is_parked, kept in ((False, _KEPT_QUEUED), (True, _KEPT_FREE)):
            for documents in self._documents(is_parked):
                written |= await connection.patiently(
                    partial(
                        swap,
                        connection,
                        documents,
                        stamp=self._stamp,
                        where=FREE if is_parked else QUEUED,
                        seen={name: self._taken[name].stamp for name in documents},
                        kept=kept,
                    )
                )
        return written

    def _documents(self, is_parked: bool) -> Iterator[dict[str, RawBSONDocument]]:
        """The jobs as documents, as many at once as fit into one command."""
        some: dict[str, RawBSONDocument] = {}
        size = 0
        for name, taken in self._taken.items():
            if taken.is_parked is is_parked:
                some[name] = replacing(taken.job, stamp=self._stamp, result=None)
                size += len(some[name].raw)
            if size >= MOST_BYTES:
                yield some
                some, size = {}, 0
        if some:
            yield some
