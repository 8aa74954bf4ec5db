"""One claim of a batch.

The front of the queue is read, and what its jobs are to become is written in their place: to
those that are still as they were read, which the stamp of their last write tells. So of those
who claim the same jobs at the same time one gets each, and a claim that is repeated, because
its answer was lost, finds what it has taken already. Where others were faster, the next in the
queue are tried.
"""

from __future__ import annotations

import asyncio
from functools import partial

from bson.raw_bson import RawBSONDocument
from msgspec.structs import replace

from shunter.model.job import Dispatch, Job, Status
from shunter.model.lifecycle import Berth, started_at_once
from shunter.store.mongo.blobs import Found, filled
from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import LOWEST, Document, job_of, replacing
from shunter.store.mongo.swapping import MOST_BYTES, MOST_JOBS, SEQ_AND_PAYLOAD, swap
from shunter.store.port import Claim

MOST_TYPES = 100
"""How many types one query names. The server merges up to 200 sorted lists; beyond, it sorts."""

ORDER = [("ready", 1), ("seq", 1)]


class Claiming:
    """Performs a claim. `jobs` has what was taken, in the order of the queue."""

    def __init__(self, claim: Claim, *, stamp: str) -> None:
        self._claim = claim
        self._types = list(dict.fromkeys(claim.types))
        self._berths: list[Berth | None] = list(claim.berths) or [None] * max(claim.limit, 0)
        self._stamp = stamp
        self._round = 0
        self._bid: _Bid | None = None
        self.jobs: list[Job] = []
        self.is_done = not self._types or not self._berths

    async def perform(self, connection: Connection) -> None:
        while not self.is_done:
            bid = self._bid or await self._next_bid(connection)
            self._bid = bid  # until its answer is there
            self.jobs += await bid.made(connection)
            self._bid = None
            self._berths = bid.berths_left
            self.is_done = not self._berths or (bid.is_whole_queue and not bid.losses)

    async def _next_bid(self, connection: Connection) -> _Bid:
        wanted = min(len(self._berths), MOST_JOBS)
        front = await connection.patiently(partial(self._front, connection, wanted))
        bid = _Bid(self._claim, self._berths, stamp=f"{self._stamp}.{self._round}")
        are_in = [bid.add(document) for document in front]
        bid.is_whole_queue = all(are_in) and len(front) < wanted
        self._round += 1
        return bid

    async def _front(self, connection: Connection, wanted: int) -> list[Document]:
        """The first jobs in the queue."""
        chunks = [
            self._types[start : start + MOST_TYPES]
            for start in range(0, len(self._types), MOST_TYPES)
        ]
        if len(chunks) == 1:
            return await _first(connection, chunks[0], wanted)
        fronts = await asyncio.gather(*(_first(connection, types, wanted) for types in chunks))
        together = [document for front in fronts for document in front]
        return sorted(together, key=lambda it: (it["ready"], it["seq"]))[:wanted]


class _Bid:
    """An attempt to take jobs that were seen at the front, one for each berth.

    A berth of None is none: the job is claimed and not started.
    """

    def __init__(self, claim: Claim, berths: list[Berth | None], *, stamp: str) -> None:
        self._dispatch = Dispatch(claim.dispatcher_id, claim.now, claim.expiry)
        self._stamp = stamp
        self._seen: list[str] = []
        self._found: dict[str, Found] = {}
        self._documents: dict[str, RawBSONDocument] = {}
        self._size = 0
        self.berths_left = berths
        self.is_whole_queue = False
        self.losses = 0

    def add(self, document: Document) -> bool:
        """Bid for one more job, unless that is more than one statement carries."""
        if self._size >= MOST_BYTES:
            return False
        self._seen.append(document["stamp"])
        queued, apart = job_of(document)
        job = self._taken(queued, self.berths_left[len(self._found)])
        new = replacing(job, stamp=self._stamp, result=None)
        self._found[job.id] = job, apart
        self._documents[job.id] = new
        self._size += len(new.raw)
        return True

    async def made(self, connection: Connection) -> list[Job]:
        """Take what is still as it was seen, and return it."""
        if not self._documents:
            return []
        as_seen = {"$eq": ["$stamp", {"$arrayElemAt": [{"$literal": self._seen}, "$$place"]}]}
        taken = await connection.patiently(
            partial(
                swap,
                connection,
                self._documents,
                stamp=self._stamp,
                where={"ready": {"$gte": LOWEST}},
                condition=as_seen,
                kept={**SEQ_AND_PAYLOAD, "result": "$result"},
            )
        )
        jobs = await filled(connection, [it for name, it in self._found.items() if name in taken])
        lost = [
            berth
            for name, berth in zip(self._found, self.berths_left, strict=False)
            if name not in taken
        ]
        self.losses = len(lost)
        self.berths_left = lost + self.berths_left[len(self._found) :]
        return jobs

    def _taken(self, queued: Job, berth: Berth | None) -> Job:
        job = replace(
            queued,
            status=Status.DISPATCHING,
            revision=queued.revision + 1,
            updated=self._dispatch.date,
            dispatcher=self._dispatch,
        )
        return job if berth is None else started_at_once(job, berth)


async def _first(connection: Connection, types: list[str], wanted: int) -> list[Document]:
    query = connection.newest_jobs.find(front_of(types), batch_size=wanted + 1)
    return await query.sort(ORDER).limit(wanted).to_list()


def front_of(types: list[str]) -> Document:
    return {"type": {"$in": types}, "ready": {"$gte": LOWEST}}
