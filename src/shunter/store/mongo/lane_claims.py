"""One claim under limits.

Jobs are chosen as `model.lane_claim` says, from what was read. Then tokens are taken from their
buckets by compare-and-swap, and the jobs are written with their places: of two claims that chose
the same place the unique index refuses one, which looks again. A token whose job was lost to
another claim is lost too: never more jobs start than the rate allows.
A claim whose answer was lost is repeated under the same stamp, and finds what it has taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from shunter.model.job import Dispatch, Job, Status
from shunter.model.job_limits import JobLimits
from shunter.model.lane_claim import (
    LANES_AT_ONCE,
    MOST_LOOKS,
    SORTED_AT_ONCE,
    LaneChoice,
    LanePlace,
    LaneState,
    WaitingJob,
    choose,
    depths,
)
from shunter.model.lifecycle import WorkerSlot, occupying, started_at_once
from shunter.model.place_guess import (
    LaneLook,
    PlaceGuess,
    look_after,
    places_at,
    seen_by_look,
)
from shunter.model.record import Record, RecordKind
from shunter.store.mongo import lanes, record_documents
from shunter.store.mongo.blobs import filled
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, job_of, replacing
from shunter.store.mongo.front import Reserve
from shunter.store.mongo.lane_bid import LaneBid, written
from shunter.store.port import Claim

MOST_FRONTS = 32
"""Of so many lanes more than the first job is read, by a query each."""

MOST_ROUNDS = 8
"""How often a claim looks again because others were faster."""


class LaneClaiming:
    """Performs a claim under limits. `look` is what it has seen, once it is performed."""

    def __init__(self, claim: Claim, limits: JobLimits, *, stamp: str) -> None:
        self.claim = claim
        self._limits, self._stamp = limits, stamp
        (self._type,) = claim.types
        self._guess = claim.guess
        if self._guess is not None and len(self._guess.lanes) > MOST_FRONTS:
            self._guess = None
        self._first = claim.first
        self._slots: list[WorkerSlot | None] = list(claim.slots) or [None] * max(claim.limit, 0)
        self._room = claim.most_bytes
        self._after = claim.after
        self._rounds = 0
        self._bid: LaneBid | None = None
        self._is_unsorted = False  # there are more jobs to be put into their lanes
        self.reserve: Reserve | None = None
        self.look = LaneLook(claim.after)
        self.jobs: list[Job] = []
        self.is_done = not self._slots

    async def perform(self, connection: MongoConnection) -> None:
        """Take jobs; with a `reserve` only if there is room before the batch makes any."""
        while not self.is_done and (self.reserve is None or self._is_early):
            if self._bid is None:
                self._bid = await connection.patiently(partial(self._next_bid, connection))
            bid = self._bid  # until its answer is there
            losses = await self._made(connection, bid) if bid.documents else 0
            self._bid = None
            is_full = not self._slots or self._room <= 0
            self._guess = None if losses else bid.guess
            is_end = not losses
            if is_end and not is_full and self._may_be_more(bid):
                return  # when all of the batch is written
            if is_end and not is_full and bid.is_guess:
                is_end = not await self._is_waiting(connection)
                self._guess = bid.guess if is_end else None
            self.is_done = is_full or is_end or self._rounds >= MOST_ROUNDS
            if self.is_done:
                is_held_back = is_full or losses > 0 or not bid.is_all
                is_more = self.look.is_more or losses > 0 or self._is_unsorted
                self.look = replace(
                    self.look,
                    guess=self._guess,
                    is_held_back=is_held_back,
                    is_more=is_more,
                    is_empty=bid.is_empty and self.claim.guess is None and not self.jobs,
                )

    @property
    def _is_early(self) -> bool:
        """True if there is likely to be room while the rest of the batch is being written."""
        is_first_look = self.claim.is_roomy and not self._rounds
        return self._bid is not None or self._guess is not None or is_first_look

    def _may_be_more(self, bid: LaneBid) -> bool:
        """True if the rest of the batch may make jobs ready, or free the places that they want."""
        if self.reserve is None:
            return False
        is_held_back = not bid.is_guess and not bid.is_all
        return self.reserve.is_more_coming or is_held_back

    async def _is_waiting(self, connection: MongoConnection) -> bool:
        return await connection.patiently(partial(lanes.is_waiting, connection, self._type))

    async def _next_bid(self, connection: MongoConnection) -> LaneBid:
        """Choose what is to start: without a look at places, if they are very likely free."""
        guess = self._guess
        if guess is not None and not guess.knows_lanes(self.claim.now):
            guess = await self._with_lanes(connection, guess)
            if guess is not None and not guess.lanes:
                return self._empty_bid(guess)
        if guess is None:
            return await self._seen_bid(connection)
        return await self._guessed_bid(connection, guess)

    def _empty_bid(self, guess: PlaceGuess | None) -> LaneBid:
        """Conclude a look that has found no lane, as most looks of an idle dispatcher do."""
        self._rounds += 1
        return LaneBid(f"{self._stamp}.{self._rounds}", guess=guess, is_all=True, is_empty=True)

    async def _with_lanes(
        self, connection: MongoConnection, guess: PlaceGuess
    ) -> PlaceGuess | None:
        """Look which lanes there are now; None if they are too many to go by a guess.

        Before its batch is written a claim knows of lanes that the batch puts jobs into.
        """
        names = {head.lane for head in await self._heads(connection)}
        if self.reserve is not None:
            names.update(guess.lanes)
        if len(names) > MOST_FRONTS:
            return None
        state, revisions = guess.state, dict[str, int]()
        await lanes.read_buckets(connection, self._type, state, list(names), revisions)
        return guess.with_lanes(names, state, revisions, now=self.claim.now)

    async def _heads(self, connection: MongoConnection) -> list[lanes.FrontJob]:
        """Read the first jobs of lanes, once what waits in none is in its own."""
        after = self._after
        moved, heads = await asyncio.gather(
            lanes.sort(connection, self._type, self._limits),
            lanes.heads_after(connection, self._type, after),
        )
        if moved:
            heads = await lanes.heads_after(connection, self._type, after)
            self._is_unsorted = moved >= SORTED_AT_ONCE
        return heads

    async def _guessed_bid(self, connection: MongoConnection, guess: PlaceGuess) -> LaneBid:
        """Choose from the lanes that were seen last, as if all places were free."""
        state, names = guess.state, guess.lanes_after(self._after)
        opened = [lane for lane in names if state.is_open(lane, now=self.claim.now)]
        wanted, documents = len(self._slots), dict[str, Document]()
        if self._limits.fair:
            deep = depths(len(opened), wanted, self._limits)[-1]
            fronts = await lanes.fronts(
                connection, self._type, opened, deep, documents, self._below
            )
        else:
            deep = wanted
            fronts = await self._first_of_all(connection, opened, documents)
        free = self._free(fronts)
        if state.has_room(opened, wanted):
            chosen, choice = self._in_a_row(free), LaneChoice({}, {})
        else:
            chosen, choice = self._choose(state, free, deep)
        bid = await self._bid_for(connection, chosen, documents)
        bid.is_guess, bid.is_all = True, True
        bid.guess = guess.less(len(chosen), choice.buckets)
        self._conclude(bid, choice, state, names, guess.revisions)
        return bid

    @property
    def _below(self) -> int | None:
        """The rank before which jobs are free to be taken."""
        return None if self.reserve is None else self.reserve.first_made_ready

    def _free(self, fronts: Sequence[lanes.FrontJob]) -> list[lanes.FrontJob]:
        """Return the jobs that the rest of the batch leaves to this claim."""
        below, replaced = self._below, (self.reserve or Reserve()).replaced
        return [
            job for job in fronts if job.id not in replaced and (below is None or job.rank < below)
        ]

    async def _first_of_all(
        self, connection: MongoConnection, names: Sequence[str], documents: dict[str, Document]
    ) -> list[lanes.FrontJob]:
        """Read the first jobs of all of these lanes, with their documents."""
        wanted = len(self._slots)
        found = await lanes.first_of_all(connection, self._type, names, wanted, self._below)
        documents |= {document["_id"]: document for document in found}
        return [lanes.seen(document) for document in found]

    async def _seen_bid(self, connection: MongoConnection) -> LaneBid:
        """Look at lanes and places, and choose."""
        job_type, now, wanted = self._type, self.claim.now, len(self._slots)
        after, heads = self._after, await self._heads(connection)
        if not heads:  # as in every look of an idle dispatcher
            return self._empty_bid(None)
        state = await lanes.taken(connection, job_type, self._limits)
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
        is_deep = len(opened) <= MOST_FRONTS
        deep = depths(len(opened), wanted, self._limits)[-1] if is_deep else 1
        documents: dict[str, Document] | None = {} if len(opened) * deep <= wanted else None
        open_names = [head.lane for head in opened]
        if opened and is_deep and state.has_room(open_names, wanted):
            deep, documents = wanted, {}
            opened = await self._first_of_all(connection, open_names, documents)
        elif opened and (deep > 1 or documents is not None):
            opened = await lanes.fronts(
                connection, job_type, open_names, deep, documents, self._below
            )
        chosen, choice = self._choose(state, self._free(opened), deep)
        names = [head.lane for head in heads]
        bid = await self._bid_for(connection, chosen, documents)
        self._conclude(bid, choice, state, names, revisions)
        seen = seen_by_look(
            self.look,
            state,
            names,
            choice,
            fronts=len(opened),
            started=len(chosen),
            now=now,
            revisions=revisions,
        )
        bid.guess, bid.is_all = seen.guess, not seen.is_held_back
        return bid

    def _conclude(
        self,
        bid: LaneBid,
        choice: LaneChoice,
        state: LaneState,
        names: Sequence[str],
        revisions: Mapping[str, int],
    ) -> None:
        """Say which tokens a bid takes, and where the next one begins."""
        bid.buckets = [
            Record(
                kind=RecordKind.RATE,
                name=f"{self._type} {bucket}",
                revision=revisions.get(bucket, 0) + 1,
                document=repr(next_at).encode(),
            )
            for bucket, next_at in choice.buckets.items()
        ]
        self._rounds += 1
        last = list(bid.found.values())[-1][0].lane if bid.found else None
        now = self.claim.now
        self.look = look_after(choice, state, names, last, now=now, before=self._after)
        self._after = self.look.after

    def _in_a_row(self, fronts: Sequence[lanes.FrontJob]) -> dict[str, LanePlace]:
        """Start all of these, which have room, on the next places."""
        numbers = range(self._first, self._first + len(fronts))
        self._first += len(fronts)
        places = places_at(self._limits, numbers)
        return {job.id: place for job, place in zip(fronts, places, strict=True)}

    def _choose(
        self, state: LaneState, fronts: Sequence[lanes.FrontJob], deep: int
    ) -> tuple[dict[str, LanePlace], LaneChoice]:
        """Decide; jobs of several clients may have one seq, so they are numbered here."""
        numbers = {job.id: number for number, job in enumerate(sorted(fronts))}
        waiting = [WaitingJob(it.lane, it.rank, numbers[it.id], it.priority) for it in fronts]
        choice = choose(
            state,
            waiting,
            wanted=len(self._slots),
            now=self.claim.now,
            deep=deep,
            first=self._first,
        )
        self._first += len(choice.starts)
        ids = {number: job_id for job_id, number in numbers.items()}
        return {ids[number]: place for number, place in choice.starts.items()}, choice

    async def _bid_for(
        self,
        connection: MongoConnection,
        chosen: dict[str, LanePlace],
        by_id: dict[str, Document] | None,
    ) -> LaneBid:
        """Read the jobs that were chosen, and say what they are to become."""
        bid = LaneBid(f"{self._stamp}.{self._rounds}")
        if not chosen:
            return bid
        if by_id is None:
            query = connection.newest_jobs.find({"_id": {"$in": list(chosen)}, **lanes.WAITS})
            by_id = {document["_id"]: document for document in await query.to_list()}
        dispatch = Dispatch(self.claim.dispatcher_id, self.claim.now, self.claim.expiry)
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
            slot = self._slots[len(bid.found)]
            job = occupying(job, place) if slot is None else started_at_once(job, slot, place)
            bid.found[job_id] = job, apart
            bid.seen[job_id] = seen
            bid.documents[job_id] = replacing(job, stamp=bid.stamp, result=None)
        return bid

    async def _made(self, connection: MongoConnection, bid: LaneBid) -> int:
        """Take the tokens, then the jobs; return how many were lost to others."""
        count = len(bid.found)
        if not bid.has_tokens:
            await self._take_tokens(connection, bid)
        taken = await connection.patiently(partial(written, connection, bid))
        jobs = await filled(connection, [it for name, it in bid.found.items() if name in taken])
        self.jobs += jobs
        self._room -= sum(len(job.payload or b"") for job in jobs)
        slots = zip(bid.found, self._slots, strict=False)
        lost = [slot for name, slot in slots if name not in taken]
        self._slots = lost + self._slots[len(bid.found) :]
        return count - len(taken)

    async def _take_tokens(self, connection: MongoConnection, bid: LaneBid) -> None:
        """Keep to the jobs whose buckets nobody else has changed."""
        if bid.buckets:
            swap = partial(record_documents.swap, connection, bid.buckets, stamp=bid.stamp)
            answers = await connection.patiently(swap)
            ours = {
                record.name[len(self._type) + 1 :]
                for record, was_written in zip(bid.buckets, answers, strict=True)
                if was_written
            }
            for job_id, (job, _) in list(bid.found.items()):
                if self._limits.bucket(job.lane or "") not in ours:
                    del bid.documents[job_id]
        bid.has_tokens = True
