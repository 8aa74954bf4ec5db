"""The replacements of a batch, and what those are told who wait for jobs that it completes.

A job that was written and then written again by somebody else, before the answer to the first
write arrived, counts as refused: the caller then looks at the store, which is what it should do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from bson.raw_bson import RawBSONDocument

from shunter.model.job import Job
from shunter.model.queue_order import place
from shunter.store.mongo.blobs import Cutter
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import OPEN, replacing
from shunter.store.mongo.free_children import FreeChildren
from shunter.store.mongo.swapping import MOST_BYTES, MOST_JOBS, swap, swap_each
from shunter.store.mongo.telling import Telling
from shunter.store.port import Batch


class ToldReplacements:
    """Replaces jobs, and tells dependents of those that completed, where that can be done."""

    def __init__(self, batch: Batch, free: FreeChildren, *, stamp: str) -> None:
        self._jobs, self._stamp = batch.replacements, stamp
        self._telling = Telling(batch, free, stamp=f"{stamp}t")
        self._is_told = not self._telling.is_needed
        self._replacements = Replacements(self._jobs, stamp=stamp) if self._is_told else None

    @property
    def answers(self) -> list[bool]:
        return [] if self._replacements is None else self._replacements.answers

    @property
    def told(self) -> frozenset[str]:
        """The jobs whose dependents all know."""
        return self._telling.told

    @property
    def woken(self) -> frozenset[str]:
        """The types of jobs that can start, or were queued, by that."""
        return self._telling.woken

    @property
    def may_wake(self) -> bool:
        """True if jobs may be queued by that, or free to start."""
        return self._telling.is_needed

    @property
    def is_done(self) -> bool:
        is_written = self._replacements is not None and self._replacements.is_done
        return is_written and self._is_told

    async def perform(self, connection: MongoConnection) -> None:
        if self._replacements is None:
            await asyncio.gather(self._telling.look(connection), self._telling.announce(connection))
            self._replacements = Replacements(self._telling.as_told(self._jobs), stamp=self._stamp)
        await self._replacements.perform(connection)
        if not self._is_told:
            pairs = zip(self._jobs, self._replacements.answers, strict=True)
            await self._telling.tell(connection, [job.id for job, is_so in pairs if is_so])
            self._is_told = True


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

    async def perform(self, connection: MongoConnection) -> None:
        while self._waves:
            self.answers += await self._waves[0].written(connection)
            del self._waves[0]


class _Wave:
    """Jobs that fit into one statement: no two of them are steps of the same job."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._cutter = Cutter()
        self._documents: dict[str, RawBSONDocument] = {}
        self._placed: set[str] = set()
        self._size = 0

    def takes(self, job: Job) -> bool:
        is_full = len(self._documents) >= MOST_JOBS or self._size >= MOST_BYTES
        return not is_full and job.id not in self._documents

    def add(self, job: Job) -> None:
        result = self._cutter.body(job.id, job.result, f"{self._stamp}.{job.id}.result")
        document = replacing(job, stamp=self._stamp, result=result)
        self._documents[job.id] = document
        if place(job) is not None:
            self._placed.add(job.id)
        self._size += len(document.raw)

    async def written(self, connection: MongoConnection) -> list[bool]:
        """Write, and say of each job whether it stands as written here."""
        await self._cutter.write(connection)
        still_open = {"status": {"$in": OPEN}}
        written: set[str] = set()
        for way, ids in ((swap, self._documents.keys() - self._placed), (swap_each, self._placed)):
            if ids:
                chosen = {name: it for name, it in self._documents.items() if name in ids}
                written |= await connection.patiently(
                    partial(way, connection, chosen, stamp=self._stamp, where=still_open)
                )
        refused = self._documents.keys() - written
        if refused:
            await connection.patiently(partial(self._cutter.discard, connection, refused))
        return [job_id in written for job_id in self._documents]
