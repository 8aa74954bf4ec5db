"""SQLite behind the store port: which thread does what.

Records are turned into rows here, on the caller's side, so that what can't be written fails
there and the writer has little to do in Python. Writes go through one writer with group commit.
Reads have a thread of their own, so that a long listing holds up no dispatching; in WAL mode
they see every write whose call has returned.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

from shunter.errors import StoreError, UniqueKeyTaken
from shunter.model.job import Job, Status
from shunter.model.journal import JOURNAL_PAGE_BYTES, EntryKind, JournalPage
from shunter.model.limits_record import LaneCount
from shunter.model.place_guess import LaneLook
from shunter.model.presence import Presence
from shunter.model.record import Record, RecordKind
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, ParentOutcome, has_completed_for_others
from shunter.store.port import Backlog, Batch, Claim, Committed, JobQuery
from shunter.store.search import JobSearch, JobsSeen, QueueDepth, QueueLook, RunSearch, RunsSeen
from shunter.store.sqlite import (
    edges,
    journal_rows,
    lanes,
    reads,
    record_rows,
    searches,
    statements,
    writes,
)
from shunter.store.sqlite.connection import connect, explained, migrate, migrations
from shunter.store.sqlite.connection_thread import ConnectionThread, Operation, T
from shunter.store.sqlite.file_monitor import LOG, FileMonitor, Unacknowledged
from shunter.store.sqlite.inspector import FIRST_SECONDS, Inspector
from shunter.store.sqlite.queue_look import queue_look
from shunter.store.sqlite.rows import as_json, delivered, inserted, registered, replaced
from shunter.store.sqlite.told_dependents import NOBODY_TOLD, tell
from shunter.store.sqlite.watch import CommitWatch
from shunter.store.sqlite.writer import Writer


class SQLiteStore:
    """Jobs and workers in one file."""

    def __init__(self, path: str, *, busy_timeout: float = 10.0) -> None:
        self.path = os.path.abspath(path)
        self.monitor = FileMonitor(self.path)
        self.writer = Writer(self.monitor, self._connect_writer, busy_timeout=busy_timeout)
        self.reader = ConnectionThread(self.monitor, self._connect_reader)
        self._inspector: Inspector | None = None
        self._unacknowledged: tuple[Batch, Unacknowledged] | None = None
        self._busy_timeout = busy_timeout
        self._is_open = False

    async def open(self) -> None:
        if self._is_open:
            return
        self.monitor.forget()
        self._unacknowledged = None
        try:
            await self.writer.start()
            await self.reader.start()
            await self._inspect()
        except BaseException:
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        if self._inspector is not None:
            await asyncio.to_thread(self._inspector.stop)
            self._inspector = None
        await self.reader.stop()
        await self.writer.stop()
        self.monitor.let_go()

    async def _inspect(self) -> None:
        """Have the file read in the background; a short one is known to be whole by then."""
        self._inspector = Inspector(self.monitor)
        self._inspector.start()
        await asyncio.to_thread(self._inspector.first.wait, FIRST_SECONDS)
        await asyncio.to_thread(self.monitor.look)

    async def commit(self, batch: Batch) -> Committed:
        workers = [registered(worker) for worker in batch.workers]
        completed = {
            it.id for it in batch.replacements if batch.tells and has_completed_for_others(it)
        }
        replacements = [replaced(it, is_told=it.id in completed) for it in batch.replacements]
        deliveries = [delivered(job) for job in batch.deliveries]
        inserts = [inserted(job) for job in batch.inserts]
        graphs = [edges.GraphRows.of(graph) for graph in batch.graphs]
        outcomes = [edges.row(edge) for edge in batch.outcomes]

        earlier, self._unacknowledged = self._unacknowledged, None

        def is_back(unsure: Unacknowledged) -> bool:
            """True if the file that it was written to is at the path again."""
            return unsure.generation == self.monitor.generation

        def all_of_it(connection: sqlite3.Connection) -> Committed:
            if earlier is not None and earlier[0] is batch and is_back(earlier[1]):
                return cast(Committed, earlier[1].result)
            if workers:
                writes.put_workers(connection, workers)
            if batch.renewed:
                writes.renew_workers(connection, batch.renewed, batch.now)
            looks: dict[str, LaneLook] = {}
            edges.note(connection, outcomes)
            entered = journal_rows.enter(connection, batch.entries) if batch.entries else []
            written = writes.replace(connection, replacements)
            told = NOBODY_TOLD
            if completed:
                pairs = zip(batch.replacements, written, strict=True)
                ended = [job.id for job, is_so in pairs if is_so and job.id in completed]
                told = tell(connection, ended, now=batch.now, most=batch.tells)
            return Committed(
                entered=entered,
                replaced=written,
                told=told.parents,
                woken=told.types,
                delivered=writes.deliver(connection, deliveries),
                inserted=writes.insert(connection, batch.inserts, inserts, batch.otherwise),
                graphs=[edges.plant(connection, rows) for rows in graphs],
                claimed=[self._claim(connection, claim, looks) for claim in batch.claims],
                looks=looks,
            )

        try:
            return await self._write(all_of_it)
        except Unacknowledged as error:
            self._unacknowledged = (batch, error)
            raise
        except StoreError:
            self._unacknowledged = self._unacknowledged or earlier
            raise

    async def insert(self, jobs: Sequence[Job]) -> list[Job | UniqueKeyTaken]:
        offered = tuple(jobs)
        rows = [inserted(job) for job in offered]
        return await self._write(lambda connection: writes.insert(connection, offered, rows))

    async def claim(self, claim: Claim) -> list[Job]:
        return await self._write(lambda connection: self._claim(connection, claim, {}))

    async def replace(self, jobs: Sequence[Job]) -> list[bool]:
        rows = [replaced(job) for job in jobs]
        return await self._write(lambda connection: writes.replace(connection, rows))

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        wanted = tuple(ids)
        return await self._read(lambda connection: reads.get(connection, wanted, payload))

    async def journal(
        self,
        job_id: str,
        kind: EntryKind,
        *,
        after: str = "",
        most_bytes: int = JOURNAL_PAGE_BYTES,
    ) -> JournalPage:
        return await self._read(
            lambda connection: journal_rows.page(connection, job_id, kind, after, most_bytes)
        )

    async def revisions(self, ids: Sequence[str]) -> dict[str, int]:
        wanted = tuple(ids)
        return await self._read(lambda connection: reads.revisions(connection, wanted))

    async def find(self, query: JobQuery) -> list[Job]:
        return await self._read(lambda connection: reads.find(connection, query))

    async def search(self, wanted: JobSearch) -> JobsSeen:
        return await self._read(lambda connection: searches.search(connection, wanted))

    async def depths(self, *, most: int) -> list[QueueDepth]:
        return await self._read(lambda connection: searches.depths(connection, most))

    async def queue_look(self, job: Job, *, most: int, deep: int) -> QueueLook:
        return await self._read(lambda connection: queue_look(connection, job, most, deep))

    async def runs(self, wanted: RunSearch) -> RunsSeen:
        return await self._read(lambda connection: searches.runs(connection, wanted))

    async def presences(self) -> list[Presence]:
        return await self._read(searches.presences)

    async def held_by(self, worker_ids: Iterable[str]) -> list[Job]:
        listed = (as_json(list(worker_ids)),)
        return await self._read(lambda connection: reads.jobs(connection, statements.HELD, listed))

    async def alarms(self, *, now: float, limit: int) -> list[Job]:
        return await self._read(
            lambda connection: reads.jobs(
                connection, statements.DUE, (now,), order="alarm", limit=max(limit, 0)
            )
        )

    async def due_callbacks(self, *, now: float, limit: int) -> list[Job]:
        return await self._read(
            lambda connection: reads.jobs(
                connection, statements.CALLBACK_DUE, (now,), order="alarm", limit=max(limit, 0)
            )
        )

    async def due_dependents(self, *, limit: int) -> list[Job]:
        return await self._read(
            lambda connection: reads.jobs(
                connection, statements.DEPENDENTS_DUE, (), order="alarm", limit=max(limit, 0)
            )
        )

    async def dependents(
        self, parents: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        wanted = tuple(parents)
        return await self._read(lambda it: edges.of_parents(it, wanted, after, max(limit, 0)))

    async def parents(
        self, children: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        wanted = tuple(children)
        return await self._read(lambda it: edges.of_children(it, wanted, after, max(limit, 0)))

    async def standings(self, children: Sequence[str]) -> dict[str, frozenset[ParentOutcome]]:
        wanted = tuple(children)
        return await self._read(lambda it: edges.standings(it, wanted))

    async def overdue(self, *, now: float, limit: int) -> list[Job]:
        return await self._read(
            lambda connection: reads.jobs(
                connection, statements.OVERDUE, (now,), order="deadline", limit=max(limit, 0)
            )
        )

    async def next_alarm(self) -> float | None:
        return await self._read(lambda connection: reads.value(connection, statements.NEXT_ALARM))

    async def backlog(self, *, is_ended: bool | None = None) -> list[Backlog]:
        if is_ended is None:
            return await self._read(reads.backlog)
        if not is_ended:
            return await self._read(lambda it: reads.backlog(it, statements.UNENDED_BACKLOG))
        total: Counter[tuple[str, Status]] = Counter()
        last: tuple[object, ...] | None = reads.FIRST_ENDED
        while last is not None:
            counts, last = await self._read(partial(reads.ended_counts, after=last))
            total.update({(kind, status): count for kind, status, count in counts})
        return [
            Backlog(type=kind, status=status, count=count)
            for (kind, status), count in sorted(total.items())
        ]

    async def oldest(self) -> dict[str, float]:
        return await self._read(reads.oldest)

    async def lane_counts(self, *, limit: int) -> list[LaneCount]:
        return await self._read(lambda connection: lanes.counts(connection, max(limit, 0)))

    async def purge(self, *, ended_before: float, limit: int) -> int:
        return await self._write(lambda connection: writes.purge(connection, ended_before, limit))

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        rows = [registered(worker) for worker in workers]
        await self._write(lambda connection: writes.put_workers(connection, rows))

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        ids = tuple(worker_ids)
        await self._write(lambda connection: writes.renew_workers(connection, ids, now))

    async def workers(self, ids: Sequence[str] | None = None) -> list[Worker]:
        wanted = None if ids is None else tuple(ids)
        return await self._read(lambda connection: reads.workers(connection, wanted))

    async def swap_workers(self, workers: Sequence[Worker]) -> list[bool]:
        rows = [registered(worker) for worker in workers]
        return await self._write(lambda connection: writes.swap_workers(connection, rows))

    async def remove_workers(self, workers: Sequence[Worker]) -> None:
        removed = [(worker.id, worker.revision) for worker in workers]
        await self._write(lambda connection: writes.remove_workers(connection, removed))

    async def meet(self, presence: Presence) -> list[Presence]:
        return await self._write(lambda connection: writes.meet(connection, presence))

    async def records(
        self,
        kind: RecordKind,
        *,
        before: str | None = None,
        limit: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        wanted = None if names is None else tuple(names)
        return await self._read(
            lambda it: record_rows.listed(it, kind, before=before, limit=limit, names=wanted)
        )

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        wanted = tuple(records)
        return await self._write(lambda it: [record_rows.swap(it, record) for record in wanted])

    async def watch(self, notify: Callable[[], None]) -> None:
        self._check_open()
        watch = CommitWatch(
            self._connect_reader,
            self.path + LOG,
            lambda: self.writer.commits,
            lambda: self.monitor.generation,
        )
        in_doubt = asyncio.Event()
        watch.start(asyncio.get_running_loop(), notify, in_doubt.set)
        try:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(self._ask_writer(in_doubt, notify))
                await watch.ended.wait()
                asking.cancel()
        finally:
            await asyncio.to_thread(watch.stop)
        if watch.error is not None:
            raise explained(watch.error, self.path)

    async def _ask_writer(self, in_doubt: asyncio.Event, notify: Callable[[], None]) -> None:
        """Call `notify` after a doubt if others have written: the writer's own number tells."""
        known: int | None = None
        while True:
            await in_doubt.wait()
            in_doubt.clear()
            version = None
            with suppress(StoreError):  # who asks for something will hear of it
                version = await self._write(reads.data_version)
            if version is None or version != known:
                notify()
            known = version

    async def _write(self, operation: Operation[T]) -> T:
        self._check_open()
        return await self.writer.submit(operation)

    async def _read(self, operation: Operation[T]) -> T:
        self._check_open()
        return await self.reader.submit(operation)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError(f"store {self.path} is not open; call open() first, close() last")

    def _connect_writer(self) -> sqlite3.Connection:
        is_first = self.monitor.generation == 0
        connection = self._connect(cache_mebibytes=16, is_new=is_first)
        try:
            migrate(connection, self.path, migrations(), is_new=is_first)
            self.monitor.adopt()
        except BaseException:
            connection.close()
            raise
        return connection

    def _claim(
        self, connection: sqlite3.Connection, request: Claim, looks: dict[str, LaneLook]
    ) -> list[Job]:
        """Perform a claim of either kind; what one under limits has seen goes into `looks`."""
        if request.limits is None:
            return writes.claim(connection, request)
        jobs, looks[request.types[0]] = lanes.claim(connection, request, request.limits)
        return jobs

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect(cache_mebibytes=4, is_new=False)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self, *, cache_mebibytes: int, is_new: bool) -> sqlite3.Connection:
        return connect(
            self.path,
            busy_timeout=self._busy_timeout,
            cache_mebibytes=cache_mebibytes,
            is_new=is_new,
        )
