"""One claim of a batch.

First the front of the queue is read, ids only; then one update takes of these what is still
ready, and leaves the claim's stamp on it; then what bears the stamp is read. So of those who
claim the same jobs at the same time one gets each, and a claim that is repeated, because its
answer was lost, finds what it has taken already. Where others were faster, the next in the queue
are tried.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import compress
from typing import Any

from shunter.model.job import Job
from shunter.model.lifecycle import started
from shunter.store.mongo.blobs import jobs_of
from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import LOWEST, Document
from shunter.store.mongo.replacing import Replacements
from shunter.store.port import Claim

MOST_TYPES = 100
"""How many types one query names. The server merges up to 200 sorted lists; beyond, it sorts."""


class Claiming:
    """Performs a claim. `jobs` has what was taken, in the order of the queue."""

    def __init__(self, claim: Claim, *, stamp: str) -> None:
        self._claim = claim
        self._types = list(dict.fromkeys(claim.types))
        self._stamp = stamp
        self._round = 0
        self._front: list[str] = []
        self._has_all = not claim.types or claim.limit <= 0
        self._starting: Replacements | None = None
        self.jobs: list[Job] = []
        self.is_done = self._has_all

    async def perform(self, connection: Connection) -> None:
        await self._claim_all(connection)
        if self.jobs and self._claim.berths:
            await self._start_all(connection)
        self.is_done = True

    async def _start_all(self, connection: Connection) -> None:
        """Start what was claimed; a dispatcher that dies before leaves a claim that expires."""
        if self._starting is None:
            self.jobs = [
                started(job, berth, now=self._claim.now)
                for job, berth in zip(self.jobs, self._claim.berths, strict=False)
            ]
            self._starting = Replacements(self.jobs, stamp=f"{self._stamp}.s")
        await self._starting.perform(connection)
        self.jobs = list(compress(self.jobs, self._starting.answers))

    async def _claim_all(self, connection: Connection) -> None:
        while not self._has_all:
            wanted = self._claim.limit - len(self.jobs)
            if not self._front:  # else it was tried, and its answer lost
                self._front = await connection.patiently(partial(self._look, connection, wanted))
            if not self._front:
                self._has_all = True
                return
            documents = await connection.patiently(partial(self._take, connection))
            taken = await jobs_of(connection, documents)
            is_all = len(taken) == len(self._front) < wanted
            self._has_all = is_all or len(taken) >= wanted
            self.jobs += taken
            self._front = []
            self._round += 1

    async def _look(self, connection: Connection, wanted: int) -> list[str]:
        """The ids of the first jobs in the queue."""
        chunks = [
            self._types[start : start + MOST_TYPES]
            for start in range(0, len(self._types), MOST_TYPES)
        ]
        if len(chunks) == 1:
            return [it["_id"] for it in await _front(connection, chunks[0], wanted)]
        fronts = await asyncio.gather(*(_front(connection, types, wanted) for types in chunks))
        first = sorted(
            (it for front in fronts for it in front), key=lambda it: (it["ready"], it["seq"])
        )
        return [it["_id"] for it in first[:wanted]]

    async def _take(self, connection: Connection) -> list[Document]:
        stamp = f"{self._stamp}.{self._round}"
        claim = self._claim
        made = {
            "status": "d",
            "updated": claim.now,
            "dispatcher": {"id": claim.dispatcher_id, "date": claim.now, "expiry": claim.expiry},
            "stamp": stamp,
            "held": True,
            "alarm": claim.expiry,
        }
        await connection.jobs.update_many(
            {"_id": {"$in": self._front}, "ready": {"$gte": LOWEST}},
            {"$set": made, "$inc": {"revision": 1}, "$unset": {"ready": ""}},
        )
        mine: dict[str, Any] = {"_id": {"$in": self._front}, "stamp": stamp}
        documents = await connection.jobs.find(mine).to_list()
        order = {job_id: place for place, job_id in enumerate(self._front)}
        documents.sort(key=lambda document: order[document["_id"]])
        return documents


async def _front(connection: Connection, types: list[str], wanted: int) -> list[Document]:
    cursor = connection.newest_jobs.find(
        front_filter(types), {"ready": True, "seq": True}, batch_size=wanted + 1
    )
    return await cursor.sort(FRONT_ORDER).limit(wanted).to_list()


FRONT_ORDER = [("ready", 1), ("seq", 1)]


def front_filter(types: list[str]) -> Document:
    return {"type": {"$in": types}, "ready": {"$gte": LOWEST}}
