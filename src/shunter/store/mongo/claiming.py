"""One claim of a batch.

The front of the queue is read, and what its jobs are to become is written in their place: to
those that are still as they were read, which the stamp of their last write tells. So of those
who claim the same jobs at the same time one gets each, and a claim that is repeated, because
its answer was lost, finds what it has taken already. Where others were faster, the next in the
queue are tried.
Children that are free to start (`free_children.py`) are taken as if they were in the queue; the
same write wakes them.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from shunter.model.job import Dispatch, Job, Status
from shunter.model.lifecycle import WorkerSlot, started_at_once
from shunter.store.mongo.blobs import Found, filled
from shunter.store.mongo.claim_writes import FREE, ClaimWrites
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, job_of
from shunter.store.mongo.free_children import FreeChildren
from shunter.store.mongo.front import Contention, Reserve, look, place_of
from shunter.store.mongo.swapping import MOST_JOBS
from shunter.store.port import Claim


class Claiming:
    """Performs a claim, and with a `reserve` as much of it as that allows."""

    def __init__(
        self, claim: Claim, contention: Contention, free: FreeChildren, *, stamp: str
    ) -> None:
        self.claim, self._contention, self._stamp = claim, contention, stamp
        self._free = free
        self._types = list(dict.fromkeys(claim.types))
        self._slots: list[WorkerSlot | None] = list(claim.slots) or [None] * max(claim.limit, 0)
        self._rounds = 0
        self._room = claim.most_bytes
        self._bid: _Bid | None = None
        self._taken: list[tuple[tuple[int, int], Job]] = []
        self.reserve: Reserve | None = None
        self.is_done = not self._types or not self._slots

    @property
    def jobs(self) -> list[Job]:
        """What was taken, in the order of the queue."""
        return [job for _, job in sorted(self._taken, key=lambda taken: taken[0])]

    async def perform(self, connection: MongoConnection) -> None:
        is_held_up = False
        while not self.is_done and not is_held_up:
            bid = self._bid or await self._next_bid(connection)
            self._bid = bid  # until its answer is there
            taken = await bid.made(connection)
            self._free.settle([job.id for _, job in taken])
            self._free.refuse(bid.writes.free)
            self._taken += taken
            self._room -= sum(len(job.payload or b"") for _, job in taken)
            self._bid = None
            self._slots = bid.slots_left
            self._contention.note(bids=bid.count, losses=bid.losses)
            is_end = bid.is_end and not bid.losses
            is_held_up = bid.is_restrained and (is_end or not bid.count)
            is_full = not self._slots or self._room <= 0
            self.is_done = is_full or (is_end and not bid.is_restrained)

    async def _next_bid(self, connection: MongoConnection) -> _Bid:
        """Look at the queue, and bid for what is there."""
        wanted = min(len(self._slots), MOST_JOBS)
        reserve = self.reserve or Reserve()
        below = reserve.first_made_ready
        skip = self._contention.place(wanted) if not self._rounds else 0
        names = self._free.first(self._types, wanted, below)
        children = await self._read(connection, names)
        view = partial(look, connection.newest_jobs, self._types, wanted, below=below)
        seen = await connection.patiently(partial(view, children, skip=skip))
        if skip and len(seen) < wanted:
            seen = await connection.patiently(partial(view, children, skip=0))
        free = [document for document in seen if document["_id"] not in reserve.replaced]
        stamp = f"{self._stamp}.{self._rounds}"
        bid = _Bid(self.claim, self._slots, room=self._room, stamp=stamp)
        are_in = [bid.add(document) for document in free]
        is_gone = len(children) < len(names)
        bid.is_end = len(seen) < wanted and all(are_in) and not is_gone
        bid.is_restrained = reserve.is_more_coming or len(free) < len(seen)
        self._rounds += 1
        return bid

    async def _read(self, connection: MongoConnection, names: list[str]) -> list[Document]:
        """Read children that are free to start, as documents of the queue."""
        if not names:
            return []
        query = connection.newest_jobs.find({"_id": {"$in": names}, **FREE})
        query = query.batch_size(len(names) + 1)
        children = await connection.all_of(query)
        self._free.refuse(set(names) - {child["_id"] for child in children})
        for child in children:
            child["ready"] = child["wakes"]
        return children


class _Bid:
    """An attempt to take jobs that were seen in the queue, one for each slot.

    A slot of None is none: the job is claimed and not started. `is_end` says that there is
    nothing behind these jobs, and `is_restrained` that this may not be so for everybody.
    """

    def __init__(
        self, claim: Claim, slots: list[WorkerSlot | None], *, room: int, stamp: str
    ) -> None:
        self._dispatch = Dispatch(claim.dispatcher_id, claim.now, claim.expiry)
        self._places: dict[str, tuple[int, int]] = {}
        self.writes = ClaimWrites(stamp)
        self._found: dict[str, Found] = {}
        self._room = room
        self.slots_left = slots
        self.losses = 0
        self.is_end = False
        self.is_restrained = False

    @property
    def count(self) -> int:
        return len(self.writes)

    def add(self, document: Document) -> bool:
        """Bid for one more job, unless that is more than the claim takes."""
        if self._room <= 0:
            return False
        stamp, is_parked = document["stamp"], "wakes" in document
        self._places[document["_id"]] = place_of(document)
        queued, apart = job_of(document)
        self._room -= apart["payload"].size if "payload" in apart else len(queued.payload or b"")
        job = self._taken(queued, self.slots_left[len(self._found)])
        self._found[job.id] = job, apart
        self.writes.add(queued, job, stamp=stamp, is_parked=is_parked)
        return True

    async def made(self, connection: MongoConnection) -> list[tuple[tuple[int, int], Job]]:
        """Take what is still as it was seen; return it, each with its place in the queue."""
        if not self.count:
            return []
        taken = await self.writes.write(connection)
        jobs = await filled(connection, [it for name, it in self._found.items() if name in taken])
        slots = zip(self._found, self.slots_left, strict=False)
        lost = [slot for name, slot in slots if name not in taken]
        self.losses = len(lost)
        self.slots_left = lost + self.slots_left[len(self._found) :]
        return [(self._places[job.id], job) for job in jobs]

    def _taken(self, queued: Job, slot: WorkerSlot | None) -> Job:
        job = replace(
            queued,
            status=Status.DISPATCHING,
            revision=queued.revision + 1,
            updated=self._dispatch.date,
            dispatcher=self._dispatch,
        )
        return job if slot is None else started_at_once(job, slot)
