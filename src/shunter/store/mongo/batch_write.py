"""One batch on its way into the database.

It is no transaction: each write is a compare-and-swap of its own, harmless when repeated, and
means nothing to the others. A dispatcher that dies in between leaves some of them done, which
is what it would have left by dying between two batches.
A part that is done is remembered; a part whose answer was lost is done again under the same
stamp, by which it knows its own writes. So a write that failed may be performed again, and goes
on where it stopped.
Parts that don't need each other are under way at the same time, and share the wait for the
journals: that wait is what a batch costs. A claim leaves alone what its batch is about to
write, and looks again afterwards where that was not enough, also for children of jobs that the
batch completes (`telling.py`). A claim under limits that has to look at places comes after all
others, because what they write frees those that it wants. A graph is a transaction by itself
(`graphs.py`), and comes behind the replacements if it has to do with jobs that are there.
What a job keeps comes before a write of that job: what the write says is then true, whatever
becomes of the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

from shunter.errors import StoreError
from shunter.model.job import Job
from shunter.model.queue_order import is_ready, rank
from shunter.store.mongo.claiming import Claiming
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.delivering import Deliveries
from shunter.store.mongo.edges import OutcomeMarks
from shunter.store.mongo.free_children import FreeChildren
from shunter.store.mongo.front import Contention, Reserve
from shunter.store.mongo.graphs import Graphs
from shunter.store.mongo.inserting import Insertions
from shunter.store.mongo.journal_documents import JournalWrites
from shunter.store.mongo.lane_claiming import LaneClaiming
from shunter.store.mongo.replacing import ToldReplacements
from shunter.store.mongo.workers import WorkerWrites
from shunter.store.port import Batch, Claim, Committed


class BatchPart(Protocol):
    @property
    def is_done(self) -> bool:
        """True if nothing is left to do."""

    async def perform(self, connection: MongoConnection) -> None:
        """Do what is not done yet, and keep the answers."""


class BatchWrite:
    """All that one batch wants written. `stamp` is this write's alone."""

    def __init__(
        self,
        batch: Batch,
        contention: Contention,
        free: FreeChildren,
        *,
        stamp: str,
        seqs: Iterator[int],
    ) -> None:
        self.batch = batch
        self._free, self._stamp = free, stamp
        self._queued: set[str] = set()
        self._due: set[str] = set()
        self._workers = WorkerWrites(batch.workers, batch.renewed, now=batch.now)
        self._replacements = ToldReplacements(batch, free, stamp=f"{stamp}.r")
        self._deliveries = Deliveries(batch.deliveries, stamp=f"{stamp}.d")
        self._insertions = Insertions(batch.inserts, batch.otherwise, stamp=f"{stamp}.i", seqs=seqs)
        written = {job.id for job in (*batch.replacements, *batch.inserts)}
        self._is_first = [entry.job_id in written for entry in batch.entries]
        first = [it for it, goes in zip(batch.entries, self._is_first, strict=True) if goes]
        rest = [it for it, goes in zip(batch.entries, self._is_first, strict=True) if not goes]
        self._first_entries = JournalWrites(first, stamp=f"{stamp}.j")
        self._entries = JournalWrites(rest, stamp=f"{stamp}.k")
        self._graphs = Graphs(batch.graphs, stamp=f"{stamp}.g", seqs=seqs)
        self._outcomes = OutcomeMarks(batch.outcomes)
        self._claims: list[Claiming | LaneClaiming] = [
            Claiming(claim, contention, free, stamp=f"{stamp}.c{at}")
            if claim.limits is None
            else LaneClaiming(claim, claim.limits, stamp=f"{stamp}.c{at}")
            for at, claim in enumerate(batch.claims)
        ]

    async def perform(self, connection: MongoConnection) -> Committed:
        """Write all that is not written yet."""
        await self._first_entries.perform(connection)
        writes: list[BatchPart] = [
            self._workers,
            self._entries,
            self._replacements,
            self._deliveries,
            self._outcomes,
            self._insertions,
        ]
        if not self._is_independent:
            for part in (*writes, self._graphs, *self._claims):
                await part.perform(connection)
        else:
            for claiming in self._claims:
                claiming.reserve = self._reserved_from(claiming.claim)
            if all(not graph.outside for graph in self.batch.graphs):
                writes.append(self._graphs)
            await _together(connection, *writes, *self._claims)
            await self._graphs.perform(connection)
            for claiming in self._claims:
                claiming.reserve = None
            await _together(connection, *self._claims)
        if self._free.has_work:
            queued = await self._free.queue(
                connection, may_hold=self.batch.may_hold, stamp=f"{self._stamp}.q"
            )
            self._queued |= queued.woken
            self._due |= queued.unclear
        return Committed(
            inserted=self._insertions.answers,
            replaced=self._replacements.answers,
            delivered=self._deliveries.answers,
            claimed=[claiming.jobs for claiming in self._claims],
            graphs=self._graphs.answers,
            looks={
                claim.types[0]: claiming.look
                for claim, claiming in zip(self.batch.claims, self._claims, strict=True)
                if isinstance(claiming, LaneClaiming)
            },
            entered=self._entered(),
            told=self._replacements.told - self._due,
            woken=self._replacements.woken,
        )

    def _entered(self) -> list[bool]:
        first, rest = iter(self._first_entries.answers), iter(self._entries.answers)
        return [next(first if is_first else rest) for is_first in self._is_first]

    @property
    def made_ready(self) -> bool:
        """True if it has put jobs into the queue that anybody may claim."""
        return bool(self._queued) or any(is_ready(job) for job in self._written)

    @property
    def _written(self) -> Iterator[Job]:
        """All jobs that may be in the queue when this is done."""
        batch = self.batch
        return chain(batch.replacements, batch.inserts, *(graph.jobs for graph in batch.graphs))

    @property
    def _is_independent(self) -> bool:
        """True if no part needs another one's outcome: the usual case."""
        batch = self.batch
        written = [batch.replacements, batch.deliveries, batch.inserts]
        ids = [job_id for jobs in written for job_id in {job.id for job in jobs}]
        types = [kind for claim in batch.claims for kind in set(claim.types)]
        return len(types) == len(set(types)) and len(ids) == len(set(ids))

    def _reserved_from(self, claim: Claim) -> Reserve:
        ready = (job for job in self._written if is_ready(job) and job.type in claim.types)
        ranks = (rank(job) for job in ready)
        replaced = frozenset(job.id for job in self.batch.replacements)
        return Reserve(
            replaced=replaced,
            first_made_ready=min(ranks, default=None),
            may_wake=self._replacements.may_wake,
        )


async def _together(connection: MongoConnection, *parts: BatchPart) -> None:
    """Perform parts at the same time; each is brought to its end, whatever becomes of others."""
    rest = [part for part in parts if not part.is_done]
    if len(rest) == 1:
        await rest[0].perform(connection)
        return
    outcomes: Sequence[StoreError | None] = await asyncio.gather(
        *(_tried(connection, part) for part in rest)
    )
    for error in outcomes:
        if error is not None:
            raise error


async def _tried(connection: MongoConnection, part: BatchPart) -> StoreError | None:
    try:
        await part.perform(connection)
    except StoreError as error:
        return error
    return None
