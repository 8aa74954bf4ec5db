"""The store of a simulation: what is written, checked as it is written, and told in the trace.

`Truth` is the memory store that all dispatchers share, with a check of each write that does not
rely on its own guards. `FaultyStore` is one dispatcher's way to it: it takes time, stalls, fails
before a write, or loses the answer after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from shunter.dispatch.schedule_records import record_name, schedule_in
from shunter.errors import StoreError, UniqueKeyTaken
from shunter.model.job import Job, Status
from shunter.model.journal import JOURNAL_PAGE_BYTES, EntryKind, JournalPage
from shunter.model.limits_record import LaneCount
from shunter.model.presence import Presence
from shunter.model.record import Record, RecordKind
from shunter.model.schedule import Schedule
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.memory import MemoryStore
from shunter.store.port import Backlog, Batch, Claim, Committed, JobQuery
from shunter.store.search import JobSearch, JobsSeen, QueueDepth, QueueLook, RunSearch, RunsSeen
from shunter.testing.simulation.processes import Process

T = TypeVar("T")

OnWrite = Callable[[Job | None, Job], None]
OnSchedule = Callable[[Schedule | None, Schedule], None]

LATENCY_SECONDS = 0.002


class Truth(MemoryStore):
    """What is really stored. `on_write` sees each job as it was and as it is, `on_callback` how
    far its callback has come, `on_schedule` each schedule.
    """

    def __init__(
        self,
        on_write: OnWrite,
        on_callback: OnWrite,
        on_beat: Callable[[str, float], None],
        on_schedule: OnSchedule,
    ) -> None:
        super().__init__()
        self._on_write = on_write
        self._on_callback = on_callback
        self._on_beat = on_beat
        self._on_schedule = on_schedule
        self.writer = ""
        """Whose write this is."""

    def _write(self, job: Job) -> None:
        self._on_write(self._jobs.get(job.id), job)
        super()._write(job)

    def _deliver(self, job: Job) -> bool:
        before = self._jobs.get(job.id)
        was_written = super()._deliver(job)
        if was_written and before is not None and before.callback != job.callback:
            self._on_callback(before, self._jobs[job.id])
        return was_written

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        ids = sorted(worker_ids)
        for worker_id in ids:
            self._on_beat(worker_id, now)
        await super().renew(ids, now=now)

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            if not worker.is_dead:
                self._on_beat(worker.id, worker.last_pinged)
        await super().put_workers(workers)

    def _swap_record(self, record: Record) -> bool:
        before = self._records.get((record.kind, record.name))
        is_written = super()._swap_record(record)
        if is_written and record.kind is RecordKind.SCHEDULE and record.document is not None:
            self._on_schedule(None if before is None else schedule_in(before), schedule_in(record))
        return is_written

    def schedule(self, name: str) -> Schedule | None:
        record = self._records.get((RecordKind.SCHEDULE, record_name("", name)))
        return None if record is None else schedule_in(record)

    def job(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def has_hooks_since(self, moment: float) -> bool:
        """True if a worker with hooks was registered before then."""
        workers = self._workers.values()
        return any(worker.has_hooks and worker.registered < moment for worker in workers)

    def keyed(self, unique_key: str) -> Job | None:
        """Return the job that has a unique key."""
        return self._jobs.get(self._keys.get(("", unique_key), ""))

    def jobs(self) -> list[Job]:
        return list(self._jobs.values())

    def under_way(self) -> list[Job]:
        return [job for job in self._jobs.values() if not job.status.is_final]

    def held(self, worker_id: str) -> list[Job]:
        return [
            job
            for job in self._jobs.values()
            if job.status is Status.IN_PROGRESS and job.execution.worker_id == worker_id
        ]


class StoreFaults:
    """What is wrong with one dispatcher's way to the store; it outlives the process."""

    def __init__(self) -> None:
        self.stalled_until = 0.0
        self.fails_until = 0.0
        self.loses_answers_until = 0.0
        self.extra_latency = 0.0


class FaultyStore:
    """A Store, as one dispatcher sees it."""

    def __init__(self, truth: Truth, process: Process, faults: StoreFaults, random: Random) -> None:
        self._truth = truth
        self._time = process.time
        self._name = process.name
        self._faults = faults
        self._random = random
        self._done: tuple[Batch, Committed] | None = None

    async def open(self) -> None:
        await self._truth.open()

    async def close(self) -> None:
        """Others use it."""

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        await self._travel()
        return await call()

    async def _written(self, call: Callable[[], Awaitable[T]]) -> T:
        await self._travel()
        self._truth.writer = self._name
        answer = await call()
        await self._pause()
        if self._time.now < self._faults.loses_answers_until:
            raise StoreError("the store's answer was lost")
        return answer

    async def _travel(self) -> None:
        await self._pause()
        while self._time.now < self._faults.stalled_until:
            await asyncio.sleep(self._faults.stalled_until - self._time.now)
        if self._time.now < self._faults.fails_until:
            raise StoreError("the store does not answer")

    async def _pause(self) -> None:
        await asyncio.sleep(LATENCY_SECONDS * self._random.random() + self._faults.extra_latency)

    # ---- the contract

    async def commit(self, batch: Batch) -> Committed:
        """Write a batch; the same one again gets the answer that was lost, as the contract says."""
        return await self._written(lambda: self._committed(batch))

    async def _committed(self, batch: Batch) -> Committed:
        if self._done is None or self._done[0] is not batch:
            self._done = batch, await self._truth.commit(batch)
        return self._done[1]

    async def insert(self, jobs: Sequence[Job]) -> list[Job | UniqueKeyTaken]:
        return await self._written(lambda: self._truth.insert(jobs))

    async def claim(self, claim: Claim) -> list[Job]:
        return await self._written(lambda: self._truth.claim(claim))

    async def replace(self, jobs: Sequence[Job]) -> list[bool]:
        return await self._written(lambda: self._truth.replace(jobs))

    async def get(self, ids: Sequence[str], *, payload: bool = False) -> list[Job | None]:
        return await self._asked(lambda: self._truth.get(ids, payload=payload))

    async def journal(
        self,
        job_id: str,
        kind: EntryKind,
        *,
        after: str = "",
        most_bytes: int = JOURNAL_PAGE_BYTES,
    ) -> JournalPage:
        return await self._asked(
            lambda: self._truth.journal(job_id, kind, after=after, most_bytes=most_bytes)
        )

    async def revisions(self, ids: Sequence[str]) -> dict[str, int]:
        return await self._asked(lambda: self._truth.revisions(ids))

    async def find(self, query: JobQuery) -> list[Job]:
        return await self._asked(lambda: self._truth.find(query))

    async def search(self, wanted: JobSearch) -> JobsSeen:
        return await self._asked(lambda: self._truth.search(wanted))

    async def depths(self, *, most: int) -> list[QueueDepth]:
        return await self._asked(lambda: self._truth.depths(most=most))

    async def queue_look(self, job: Job, *, most: int, deep: int) -> QueueLook:
        return await self._asked(lambda: self._truth.queue_look(job, most=most, deep=deep))

    async def runs(self, wanted: RunSearch) -> RunsSeen:
        return await self._asked(lambda: self._truth.runs(wanted))

    async def presences(self) -> list[Presence]:
        return await self._asked(self._truth.presences)

    async def held_by(self, worker_ids: Iterable[str]) -> list[Job]:
        return await self._asked(lambda: self._truth.held_by(worker_ids))

    async def alarms(self, *, now: float, limit: int) -> list[Job]:
        return await self._asked(lambda: self._truth.alarms(now=now, limit=limit))

    async def due_callbacks(self, *, now: float, limit: int) -> list[Job]:
        return await self._asked(lambda: self._truth.due_callbacks(now=now, limit=limit))

    async def due_dependents(self, *, limit: int) -> list[Job]:
        return await self._asked(lambda: self._truth.due_dependents(limit=limit))

    async def dependents(
        self, parents: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        return await self._asked(lambda: self._truth.dependents(parents, after=after, limit=limit))

    async def parents(
        self, children: Sequence[str], *, after: JobEdge | None = None, limit: int
    ) -> list[JobEdge]:
        return await self._asked(lambda: self._truth.parents(children, after=after, limit=limit))

    async def standings(self, children: Sequence[str]) -> dict[str, frozenset[ParentOutcome]]:
        return await self._asked(lambda: self._truth.standings(children))

    async def overdue(self, *, now: float, limit: int) -> list[Job]:
        return await self._asked(lambda: self._truth.overdue(now=now, limit=limit))

    async def next_alarm(self) -> float | None:
        return await self._asked(self._truth.next_alarm)

    async def backlog(self, *, is_ended: bool | None = None) -> list[Backlog]:
        return await self._asked(lambda: self._truth.backlog(is_ended=is_ended))

    async def oldest(self) -> dict[str, float]:
        return await self._asked(self._truth.oldest)

    async def lane_counts(self, *, limit: int) -> list[LaneCount]:
        return await self._asked(lambda: self._truth.lane_counts(limit=limit))

    async def purge(self, *, ended_before: float, limit: int) -> int:
        return await self._written(
            lambda: self._truth.purge(ended_before=ended_before, limit=limit)
        )

    async def put_workers(self, workers: Sequence[Worker]) -> None:
        await self._written(lambda: self._truth.put_workers(workers))

    async def renew(self, worker_ids: Iterable[str], *, now: float) -> None:
        await self._written(lambda: self._truth.renew(worker_ids, now=now))

    async def workers(self, ids: Sequence[str] | None = None) -> list[Worker]:
        return await self._asked(lambda: self._truth.workers(ids))

    async def swap_workers(self, workers: Sequence[Worker]) -> list[bool]:
        return await self._written(lambda: self._truth.swap_workers(workers))

    async def remove_workers(self, workers: Sequence[Worker]) -> None:
        await self._written(lambda: self._truth.remove_workers(workers))

    async def meet(self, presence: Presence) -> list[Presence]:
        return await self._written(lambda: self._truth.meet(presence))

    async def records(
        self,
        kind: RecordKind,
        *,
        before: str | None = None,
        limit: int | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        return await self._asked(
            lambda: self._truth.records(kind, before=before, limit=limit, names=names)
        )

    async def swap_records(self, records: Sequence[Record]) -> list[bool]:
        return await self._written(lambda: self._truth.swap_records(records))

    async def watch(self, notify: Callable[[], None]) -> None:
        """Other dispatchers' jobs are found by looking."""
