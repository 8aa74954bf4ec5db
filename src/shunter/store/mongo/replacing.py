"""The compare-and-swaps of a batch.

A statement for each job costs the server twice as much as one statement for all of them: most
of it is planning. So the new documents travel as one constant array, and a single update with a
pipeline lets each stored job look up its own successor. A job that is not at the revision before
stays as it is, and does not count as modified.
Where fewer were modified than asked for, the stamps say which ones: those written by the first
try too, when its answer was lost. A job that was written and then written again by somebody else
counts as refused: the caller then looks at the store, which is what it should do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bson.raw_bson import RawBSONDocument

from shunter.model.job import Job
from shunter.store.mongo.blobs import Cutter
from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import OPEN, Document, replacing

MOST_JOBS = 1000
MOST_BYTES = 8 << 20
"""What one statement carries; the server takes no more than 16 MiB of it."""


class Replacements:
    """Replaces jobs. `answers` has what became of each, once it is performed."""

    def __init__(self, jobs: Sequence[Job], *, stamp: str) -> None:
        self.answers: list[bool] = []
        self._waves: list[_Wave] = []
        for job in jobs:
            if not self._waves or not self._waves[-1].takes(job):
                self._waves.append(_Wave(f"{stamp}{len(self._waves)}"))
            self._waves[-1].add(job)

    @property
    def is_done(self) -> bool:
        return not self._waves

    async def perform(self, connection: Connection) -> None:
        while self._waves:
            self.answers += await self._waves[0].written(connection)
            del self._waves[0]


class _Wave:
    """Jobs that fit into one statement: no two of them are steps of the same job."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._cutter = Cutter()
        self._documents: dict[str, RawBSONDocument] = {}
        self._size = 0

    def takes(self, job: Job) -> bool:
        is_full = len(self._documents) >= MOST_JOBS or self._size >= MOST_BYTES
        return not is_full and job.id not in self._documents

    def add(self, job: Job) -> None:
        result = self._cutter.body(job.id, job.result, f"{self._stamp}.{job.id}.result")
        document = replacing(job, stamp=self._stamp, result=result)
        self._documents[job.id] = document
        self._size += len(document.raw)

    async def written(self, connection: Connection) -> list[bool]:
        """Write, and say of each job whether it stands as written here."""
        await self._cutter.write(connection)
        written = await connection.patiently(partial(self._swap, connection))
        return [job_id in written for job_id in self._documents]

    async def _swap(self, connection: Connection) -> set[str]:
        ids = list(self._documents)
        result = await connection.jobs.update_many(
            {"_id": {"$in": ids}, "status": {"$in": OPEN}},
            _swapping(ids, list(self._documents.values())),
        )
        if result.modified_count == len(ids):
            return set(ids)
        mine = {"_id": {"$in": ids}, "stamp": self._stamp}
        written = {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}
        await self._cutter.discard(connection, set(ids) - written)
        return written


def _swapping(ids: list[str], documents: list[RawBSONDocument]) -> list[Document]:
    """The pipeline by which each job finds its successor and becomes it, if it may."""
    place: dict[str, Any] = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    new = {"$arrayElemAt": [{"$literal": documents}, place]}
    is_next = {"$eq": ["$$new.revision", {"$add": ["$revision", 1]}]}
    kept = {"seq": "$seq", "payload": "$payload"}
    swapped = {"$cond": [is_next, {"$mergeObjects": ["$$new", kept]}, "$$ROOT"]}
    return [{"$replaceWith": {"$let": {"vars": {"new": new}, "in": swapped}}}]
