"""One claim under limits.

Jobs are chosen as `model.lane_claim` says, from what was read. Then tokens are taken from their
buckets by compare-and-swap, and the jobs are written with their places: of two claims that chose
the same place the unique index refuses one, which looks again. A token whose job was lost to
another claim is lost too: never more jobs start than the rate allows.
A claim whose answer was lost is repeated under the same stamp, and finds what it has taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from zlib import crc32

from bson.raw_bson import RawBSONDocument
from msgspec import Struct
from msgspec.structs import replace
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from shunter.model.job import Dispatch, Job, Status
from shunter.model.job_limits import JobLimits
from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    MOST_LOOKS,
    SORTED_AT_ONCE,
    LaneChoice,
    LaneLook,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    depth,
    look_after,
)
from shunter.model.lifecycle import WorkerSlot, occupying, started_at_once
from shunter.model.record import Record, RecordKind
from shunter.store.mongo import lanes, record_documents
from shunter.store.mongo.blobs import Found, filled
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, job_of, replacing
from shunter.store.mongo.faults import duplicates
from shunter.store.mongo.swapping import SEQ_AND_PAYLOAD, swap
from shunter.store.port import Claim

MOST_FRONTS = 32
"""Of so many lanes more than the first job is read, by a query each."""

MOST_ROUNDS = 8
"""How often a claim looks again because others were faster."""


class _LaneBid(Struct):
    """Jobs that were chosen, as they are to be, each with the stamp under which it was seen."""

    stamp: str
    documents: dict[str, RawBSONDocument] = {}
    seen: dict[str, str] = {}
    found: dict[str, Found] = {}
    buckets: list[Record] = []
    has_tokens: bool = False


class LaneClaiming:
    """Performs a claim under limits. `look` is what it has seen, once it is performed."""

    def __init__(self, claim: Claim, limits: JobLimits, *, stamp: str) -> None:
        self._claim, self._limits, self._stamp = claim, limits, stamp
        self._slots: list[WorkerSlot | None] = list(claim.slots) or [None] * max(claim.limit, 0)
        self._room = claim.most_bytes
        self._after = claim.after
        self._rounds = 0
        self._bid: _LaneBid | None = None
        self.look = LaneLook(claim.after)
        self.jobs: list[Job] = []
        self.is_done = not self._slots

    async def perform(self, connection: MongoConnection) -> None:
        while not self.is_done:
            if self._bid is None:
                self._bid = await connection.patiently(partial(self._next_bid, connection))
            bid = self._bid  # until its answer is there
            losses = await self._made(connection, bid) if bid.documents else 0
            self._bid = None
            is_full = not self._slots or self._room <= 0 or not losses
            self.is_done = is_full or self._rounds >= MOST_ROUNDS
            if self.is_done and losses:
                self.look = replace(self.look, is_more=True)

    async def _next_bid(self, connection: MongoConnection) -> _LaneBid:
        """Look at the lanes, and choose what is to start."""
        (job_type,) = self._claim.types
        now, wanted = self._claim.now, len(self._slots)
        after = self._after
        moved, state, heads = await asyncio.gather(
            lanes.sort(connection, job_type, self._limits),
            lanes.taken(connection, job_type, self._limits),
            lanes.heads_after(connection, job_type, after),
        )
        if moved:
            heads = await lanes.heads_after(connection, job_type, after)
        revisions: dict[str, int] = {}
        opened: list[lanes.FrontJob] = []
        for look in range(MOST_LOOKS if state.total_room >= 1 else 0):
            if look:
                heads = await lanes.heads_after(connection, job_type, after)
            names = [head.lane for head in heads]
            await lanes.read_buckets(connection, job_type, state, names, revisions)
            opened = [head for head in heads if state.is_open(head.lane, now=now)]
            if opened or len(heads) < LANES_AT_ONCE:
                break
            after = names[-1]
        deep = depth(len(opened), wanted) if len(opened) <= MOST_FRONTS else 1
        documents: dict[str, Document] | None = {} if len(opened) * deep <= wanted else None
        if opened and (deep > 1 or documents is not None):
            names = [head.lane for head in opened]
            opened = await lanes.fronts(connection, job_type, names, deep, documents)
        chosen, choice = self._choose(state, opened, deep)
        self._rounds += 1
        bid = await self._bid_for(connection, chosen, documents)
        bid.buckets = [
            Record(
                kind=RecordKind.RATE,
                name=f"{job_type} {bucket}",
                revision=revisions.get(bucket, 0) + 1,
                document=repr(next_at).encode(),
            )
            for bucket, next_at in choice.buckets.items()
        ]
        last = list(bid.found.values())[-1][0].lane if bid.found else None
        names = [head.lane for head in heads]
        self.look = look_after(choice, state, names, last, now=now, before=self._after)
        self.look = replace(self.look, is_more=self.look.is_more or moved >= SORTED_AT_ONCE)
        self._after = self.look.after
        return bid

    def _choose(
        self, state: LaneState, fronts: Sequence[lanes.FrontJob], deep: int
    ) -> tuple[dict[str, LanePlace], LaneChoice]:
        """Decide; jobs of several clients may have one seq, so they are numbered here."""
        numbers = {job.id: number for number, job in enumerate(sorted(fronts))}
        waiting = [WaitingJob(it.lane, it.rank, numbers[it.id], it.priority) for it in fronts]
        first = crc32(self._claim.dispatcher_id.encode()) + int(self._claim.now * 1000)
        choice = choose(
            state,
            waiting,
            wanted=len(self._slots),
            now=self._claim.now,
            deep=deep,
            first=first + self._rounds,
        )
        ids = {number: job_id for job_id, number in numbers.items()}
        return {ids[number]: place for number, place in choice.starts.items()}, choice

    async def _bid_for(
        self,
        connection: MongoConnection,
        chosen: dict[str, LanePlace],
        by_id: dict[str, Document] | None,
    ) -> _LaneBid:
        """Read the jobs that were chosen, and say what they are to become."""
        bid = _LaneBid(f"{self._stamp}.{self._rounds}")
        if not chosen:
            return bid
        if by_id is None:
            query = connection.newest_jobs.find({"_id": {"$in": list(chosen)}, **lanes.WAITS})
            by_id = {document["_id"]: document for document in await query.to_list()}
        dispatch = Dispatch(self._claim.dispatcher_id, self._claim.now, self._claim.expiry)
        room = self._room
        for job_id, place in chosen.items():
            document = by_id.get(job_id)
            if document is None or room <= 0:
                continue
            seen = document["stamp"]
            queued, apart = job_of(document)
            room -= apart["payload"].size if "payload" in apart else len(queued.payload or b"")
            job = replace(
                queued,
                status=Status.DISPATCHING,
                revision=queued.revision + 1,
                updated=dispatch.date,
                dispatcher=dispatch,
            )
            job, slot = occupying(job, place), self._slots[len(bid.found)]
            job = job if slot is None else started_at_once(job, slot)
            bid.found[job_id] = job, apart
            bid.seen[job_id] = seen
            bid.documents[job_id] = replacing(job, stamp=bid.stamp, result=None)
        return bid

    async def _made(self, connection: MongoConnection, bid: _LaneBid) -> int:
        """Take the tokens, then the jobs; return how many were lost to others."""
        count = len(bid.found)
        if not bid.has_tokens:
            await self._take_tokens(connection, bid)
        taken = await connection.patiently(partial(_written, connection, bid))
        jobs = await filled(connection, [it for name, it in bid.found.items() if name in taken])
        self.jobs += jobs
        self._room -= sum(len(job.payload or b"") for job in jobs)
        slots = zip(bid.found, self._slots, strict=False)
        lost = [slot for name, slot in slots if name not in taken]
        self._slots = lost + self._slots[len(bid.found) :]
        return count - len(taken)

    async def _take_tokens(self, connection: MongoConnection, bid: _LaneBid) -> None:
        """Keep to the jobs whose buckets nobody else has changed."""
        if bid.buckets:
            swap = partial(record_documents.swap, connection, bid.buckets, stamp=bid.stamp)
            answers = await connection.patiently(swap)
            (job_type,) = self._claim.types
            ours = {
                record.name[len(job_type) + 1 :]
                for record, was_written in zip(bid.buckets, answers, strict=True)
                if was_written
            }
            for job_id, (job, _) in list(bid.found.items()):
                if self._limits.bucket(job.lane or "") not in ours:
                    del bid.documents[job_id]
        bid.has_tokens = True


async def _written(connection: MongoConnection, bid: _LaneBid) -> set[str]:
    """Write the jobs that are still as they were seen; return those that stand as written here.

    By one statement; where a place is another job's already, by one for each.
    """
    if not bid.documents:
        return set()
    kept = {**SEQ_AND_PAYLOAD, "result": "$result"}
    seen = [bid.seen[job_id] for job_id in bid.documents]
    as_seen = {"$eq": ["$stamp", {"$arrayElemAt": [{"$literal": seen}, "$$place"]}]}
    with suppress(DuplicateKeyError):
        return await swap(
            connection,
            bid.documents,
            stamp=bid.stamp,
            where=lanes.WAITS,
            condition=as_seen,
            kept=kept,
        )
    writes = [
        UpdateOne(
            {"_id": job_id, "stamp": bid.seen[job_id], **lanes.WAITS},
            [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, kept]}}],
        )
        for job_id, document in bid.documents.items()
    ]
    try:
        await connection.jobs.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        duplicates(error)  # another claim has taken the place
    mine = {"_id": {"$in": list(bid.documents)}, "stamp": bid.stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}
