"""MongoDB behind the store port.

Writes of one client go one batch after the other, so that what is asked first counts first; reads
don't wait for them. Between clients the server decides, by compare-and-swap.
A batch that failed is kept for a while: offered again, it goes on where it stopped and knows
what it has written (`batch_write.py`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count

from shunter.errors import StoreError, UniqueKeyTaken
from shunter.model.job import Job
from shunter.model.journal import JOURNAL_PAGE_BYTES, EntryKind, JournalPage
from shunter.model.limits_record import LaneCount
from shunter.model.presence import Presence
from shunter.model.record import Record, RecordKind
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.mongo import (
    edges,
    journal_documents,
    lanes,
    purging,
    reads,
    record_documents,
    searching,
    telling,
    waking,
)
from shunter.store.mongo.batch_write import BatchWrite
from shunter.store.mongo.connection import MongoConnection, public_name
from shunter.store.mongo.free_children import HELD_SECONDS, FreeChildren
from shunter.store.mongo.front import Contention
from shunter.store.mongo.listing import WorkerListing
from shunter.store.mongo.presences import meet, presences
from shunter.store.mongo.queue_look import queue_look
from shunter.store.mongo.workers import remove_workers, swap_workers
from shunter.store.port import Backlog, Batch, Claim, Committed, JobQuery
from shunter.store.search import JobSearch, JobsSeen, QueueDepth, QueueLook, RunSearch, RunsSeen

MOST_FAILED = 8
"""How many failed batches are kept; a dispatcher has one, and offers it until it is written."""


class MongoStore:
    """Jobs and workers in one database. `patience` is how long a failing server is borne."""

    def __init__(self, url: str, *, patience: float = 10.0) -> None:
        self.name = public_name(url)
        self.client_id = secrets.token_hex(5)
        self._url, self._patience = url, patience
        self._connection: MongoConnection | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._idle = asyncio.Event()
        self._watches: set[asyncio.Timeout] = set()
        self._users = 0
        self._seqs = _rising()
        self._numbers = count()
        self._contention = Contention()
        self._free = FreeChildren()
        self._queueing: asyncio.Task[None] | None = None
        self._listing = WorkerListing()
        self._failed: deque[BatchWrite] = deque(maxlen=MOST_FAILED)

    async def open(self) -> None:
        async with self._opening:
            if self._connection is None:
                connection = await MongoConnection.open(self._url, patience=self._patience)
                self._herald = waking.WakeNotifier(connection, self.client_id)
                self._connection = connection

    async def close(self) -> None:
        async with self._opening:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            for watch in self._watches:
                watch.reschedule(0.0)
            while self._users:
                self._idle.clear()
                await self._idle.wait()
            if self._queueing is not None:
                self._queueing.cancel()
                await asyncio.wait([self._queueing])
            with suppress(StoreError):  # else others find the notes
                await self._queue_free(connection, may_hold=False)
            await self._herald.finish()
            await connection.close()

    async def commit(self, batch: Batch) -> Committed:
        async with self._use() as connection, self._writing:
            write = self._batch_write(batch)
            try:
                committed = await write.perform(connection)
            except StoreError:
                self._failed.append(write)
                raise
            finally:
                self._queue_later()
            if write.made_ready:
                self._herald.tell()
            return committed

    async def insert(self, jobs: Sequence[Job]) -> list[Job | UniqueKeyTaken]:
        return (await self.commit(Batch(now=0.0, inserts=tuple(jobs)))).inserted

    async def claim(self, claim: Claim) -> list[Job]:
        [jobs] = (await self.commit(Batch(now=0.0, claims=(claim,)))).claimed
        return jobs

    async def replace(self, jobs: Sequence[Job]) -> list[bool]:
        return (await self.commit(Batch(now=0.0, replacements=tuple(jobs)))).replaced

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        async with self._use() as it:
            return await reads.get(it, ids, payload=payload)

    async def journal(
        self,
        job_id: str,
        kind: EntryKind,
        *,
        after: str = "",
        most_bytes: int = JOURNAL_PAGE_BYTES,
    ) -> JournalPage:
        async with self._use() as it:
            return await journal_documents.page(it, job_id, kind, after, most_bytes)

    async def revisions(self, ids: Sequence[str]) -> dict[str, int]:
        async with self._use() as it:
            return await reads.revisions(it, ids)

    async def find(self, query: JobQuery) -> list[Job]:
        async with self._use() as it:
            return await reads.find(it, query)

    async def search(self, wanted: JobSearch) -> JobsSeen:
        async with self._use() as it:
            return await searching.search(it, wanted)

    async def depths(self, *, most: int) -> list[QueueDepth]:
        async with self._use() as it:
            return await searching.depths(it, most)

    async def queue_look(self, job: Job, *, most: int, deep: int) -> QueueLook:
        async with self._use() as it:
            return await queue_look(it, job, most, deep)

    async def runs(self, wanted: RunSearch) -> RunsSeen:
        async with self._use() as it:
            return await searching.runs(it, wanted)

    async def presences(self) -> list[Presence]:
        async with self._use() as it:
            return await presences(it)

    async def held_by(self, worker_ids: Iterable[str]) -> list[Job]:
        ids = tuple(worker_ids)
        async with self._use() as it:
            return await reads.held_by(it, ids)

    async def alarms(self, *, now: float, limit: int) -> list[Job]:
        async with self._use() as it:
            return await reads.alarms(it, now=now, limit=limit)

    async def due_callbacks(self, *, now: float, limit: int) -> list[Job]:
        async with self._use() as it:
            return await reads.due_callbacks(it, now=now, limit=limit)

    async def due_dependents(self, *, limit: int) -> list[Job]:
        async with self._use() as it:
            return await reads.due_dependents(it, limit=limit)

    async def dependents(
        self, parents: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        async with self._use() as it:
            return await edges.of_parents(it, parents, after=after, limit=limit)

    async def parents(
        self, children: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        async with self._use() as it:
            return await edges.of_children(it, children, after=after, limit=limit)

    async def standings(self, children: Sequence[str]) -> dict[str, frozenset[ParentOutcome]]:
        async with self._use() as it:
            return await edges.standings(it, children)

    async def overdue(self, *, now: float, limit: int) -> list[Job]:
        async with self._use() as it:
            return await reads.overdue(it, now=now, limit=limit)

    async def next_alarm(self) -> float | None:
        async with self._use() as it:
            return await reads.next_alarm(it)

    async def backlog(self, *, is_ended: bool | None = None) -> list[Backlog]:
        async with self._use() as it:
            return await reads.backlog(it, is_ended)

    async def oldest(self) -> dict[str, float]:
        async with self._use() as it:
            return await reads.oldest(it)

    async def lane_counts(self, *, limit: int) -> list[LaneCount]:
        async with self._use() as it:
            return await lanes.counts(it, limit)

    async def purge(self, *, ended_before: float, limit: int) -> int:
        async with self._use() as it:
            return await it.patiently(
                lambda: purging.purge(it, ended_before=ended_before, limit=limit)
            )

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        await self.commit(Batch(now=0.0, workers=tuple(workers)))

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        await self.commit(Batch(now=now, renewed=tuple(worker_ids)))

    async def workers(self, ids: Sequence[str] | None = None) -> list[Worker]:
        async with self._use() as it:
            return await self._listing.read(it, ids)

    async def swap_workers(self, workers: Sequence[Worker]) -> list[bool]:
        offered, stamp = tuple(workers), self._next_stamp()
        async with self._use() as it, self._writing:
            return await it.patiently(lambda: swap_workers(it, offered, stamp=stamp))

    async def remove_workers(self, workers: Sequence[Worker]) -> None:
        removed = tuple(workers)
        async with self._use() as it, self._writing:
            await it.patiently(lambda: remove_workers(it, removed))

    async def meet(self, presence: Presence) -> list[Presence]:
        async with self._use() as it:
            stamp = f"{self._next_stamp()}.u"
            await it.patiently(lambda: telling.take_up(it, stamp=stamp))
            return await it.patiently(lambda: meet(it, presence))

    async def records(
        self,
        kind: RecordKind,
        *,
        before: str | None = None,
        limit: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        async with self._use() as it:
            return await record_documents.listed(it, kind, before=before, limit=limit, names=names)

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        wanted, stamp = tuple(records), self._next_stamp()
        async with self._use() as it, self._writing:
            return await it.patiently(lambda: record_documents.swap(it, wanted, stamp=stamp))

    async def watch(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever another client may have made jobs ready, until cancelled.

        It is called once at the beginning, and after each break: what came before is not told.
        """
        connection = self._open_connection()
        try:
            async with asyncio.timeout(None) as watch:
                self._watches.add(watch)
                await waking.listen(connection, self.client_id, notify)
        except TimeoutError:
            raise StoreError(f"store {self.name} was closed while it was watched") from None
        finally:
            self._watches.discard(watch)

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[MongoConnection]:
        """Have the connection, and keep it from being closed meanwhile."""
        connection = self._open_connection()
        self._users += 1
        try:
            yield connection
        finally:
            self._users -= 1
            if not self._users:
                self._idle.set()

    def _open_connection(self) -> MongoConnection:
        if self._connection is None:
            raise StoreError(f"store {self.name} is not open; call open() first, close() last")
        return self._connection

    def _queue_later(self) -> None:
        """See to it that no child that could start stays parked, if no commit follows."""
        if self._free.has_work and (self._queueing is None or self._queueing.done()):
            self._queueing = asyncio.create_task(self._queue_late())

    async def _queue_late(self) -> None:
        while self._free.has_work:
            await asyncio.sleep(HELD_SECONDS / 4)
            async with self._writing:
                if (connection := self._connection) is not None:
                    with suppress(StoreError):  # it is tried again
                        await self._queue_free(connection, may_hold=True)

    async def _queue_free(self, connection: MongoConnection, *, may_hold: bool) -> None:
        if self._free.has_work:
            stamp = f"{self._next_stamp()}.q"
            if (await self._free.queue(connection, may_hold=may_hold, stamp=stamp)).woken:
                self._herald.tell()

    def _batch_write(self, batch: Batch) -> BatchWrite:
        """Take up the write of a batch that is offered again, or begin one."""
        for write in self._failed:
            if write.batch is batch:
                self._failed.remove(write)
                return write
        return BatchWrite(
            batch, self._contention, self._free, stamp=self._next_stamp(), seqs=self._seqs
        )

    def _next_stamp(self) -> str:
        return f"{self.client_id}-{next(self._numbers)}"


def _rising() -> Iterator[int]:
    """Numbers that order this client's jobs strictly, and all clients' by their clocks."""
    last = 0
    while True:
        last = max(last + 1, time.time_ns())
        yield last
