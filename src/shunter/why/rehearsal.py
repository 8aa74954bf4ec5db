"""What dispatchers would do in a situation: their own turns, over a store in memory.

Nothing is decided here: `dispatch/turn.py` plans, `store/memory.py` answers its claims, and the
job has started or it has not. One dispatcher stands for all. Whose turn it is among types and
lanes that are otherwise equal, only the real ones know; here the job's had it last. Pure: the store
in memory never waits.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from shunter.dispatch.arrivals import Arrivals, StoredJobs, Survey, WorkerRegistered
from shunter.dispatch.rules import Rules
from shunter.dispatch.state import DispatcherState
from shunter.dispatch.turn import reads, settle, turn
from shunter.model.job import Dispatch, Execution, Job, Status
from shunter.model.job_limits import JobLimits
from shunter.model.limits_record import LimitsRecord
from shunter.model.place_guess import LaneLook
from shunter.model.queue_order import alarm
from shunter.model.record import Record, RecordKind
from shunter.model.report import Held
from shunter.model.worker import Worker
from shunter.store.memory import MemoryStore
from shunter.why.situation import Situation, free_slots

NAME = "(rehearsal)"
MOST_TURNS = 20
MOST_STUBS = 64
"""So many jobs at most stand for those that have places, however many do."""

MOST_WORKERS = 32
"""So many workers at most stand for all: who is full does nothing."""

T = TypeVar("T")


def starts(situation: Situation) -> bool:
    """True if the job would be started now."""
    return settled(situation) is None


def settled(situation: Situation) -> Situation | None:
    """Return the situation once all is started that can be; None if the job is among that."""
    if situation.is_cut:
        return situation
    rehearsal = _Rehearsal(situation)
    return None if rehearsal.starts() else rehearsal.after()


class _Rehearsal:
    """One dispatcher, and a store with what is in the situation."""

    def __init__(self, situation: Situation) -> None:
        self._before = situation
        self._now = situation.now
        self._job = _ours(situation.job)
        self._limits, self._held, self._total_held = _scaled(situation)
        self._workers = _some(situation)
        self._store = MemoryStore()
        self._state = DispatcherState(NAME, Rules(), jitter=lambda: 0.5)
        self._state.had_turn(situation.job.type)
        if situation.lane is not None:
            self._state.limits.saw(situation.job.type, LaneLook(situation.lane), started=0)

    def starts(self) -> bool:
        """Take turns until nothing more happens; True if the job was started."""
        self._fill()
        arrivals = self._arrivals()
        for _ in range(MOST_TURNS):
            is_changed = self._turn(arrivals)
            (job,) = _done(self._store.get([self._job.id]))
            if job is None or job.status is Status.IN_PROGRESS:
                return job is not None
            if not is_changed and not self._state.has_work:
                return False
            arrivals = Arrivals()
        return False

    def after(self) -> Situation:
        """The situation with the others that were started."""
        before = self._before
        found = _done(self._store.get([job.id for job in before.others]))
        running = [it for it in found if it is not None and it.status is Status.IN_PROGRESS]
        if not running:
            return before
        on: dict[str | None, list[str]] = {}
        held, total_held = dict(before.held), before.total_held
        for job in running:
            on.setdefault(job.execution.worker_id, []).append(job.id)
            if job.type == before.job.type and job.lane is not None:
                held[job.lane] = held.get(job.lane, 0) + 1
                total_held += 1
        ids = {job.id for job in running}
        return replace(
            before,
            workers=tuple(
                replace(it, jobs=(*it.jobs, *on.get(it.id, ()))) for it in before.workers
            ),
            held=held,
            total_held=total_held,
            next_at={**before.next_at, **self._tokens()},
            others=tuple(job for job in before.others if job.id not in ids),
        )

    def _fill(self) -> None:
        """Put into the store what is in the situation."""
        job_type = self._job.type
        _done(self._store.open())
        _done(self._store.insert([*self._before.others, self._job]))
        if self._limits is not None:
            _done(self._store.insert(_stubs(self._job, self._held, self._total_held)))
            buckets = [
                Record(
                    kind=RecordKind.RATE,
                    name=f"{job_type} {bucket}",
                    revision=1,
                    document=repr(at).encode(),
                )
                for bucket, at in self._before.next_at.items()
            ]
            _done(self._store.swap_records(buckets))

    def _arrivals(self) -> Arrivals:
        """All that a dispatcher learns when it starts."""
        arrivals, now = Arrivals(), self._now
        arrivals.pauses = self._before.pauses
        arrivals.is_queue_changed = True
        if self._limits is not None:
            arrivals.limits = {self._job.type: LimitsRecord(changed=self._limits)}
        own = [it for it in self._workers if not it.kind.traits.is_shared]
        arrivals.membership = [
            WorkerRegistered(worker, _LINK, frozenset(), worker.max_jobs, None, now)
            for worker in own
        ]
        shared = [it for it in self._workers if it.kind.traits.is_shared]
        if shared:
            arrivals.surveyed = [Survey(shared, now, _LINK)]
        due = alarm(self._job)
        if due is not None and due <= now:
            arrivals.due = {self._job.id: self._job}
        return arrivals

    def _turn(self, arrivals: Arrivals) -> bool:
        """Take one turn; True if anything was written."""
        state, now = self._state, self._now
        wanted = reads(state, arrivals, now=now)
        found = _done(self._store.get(list(wanted.job_ids)))
        stored = StoredJobs({job.id: job for job in found if job is not None})
        plan = turn(state, arrivals, stored, now=now)
        plan.workers = []
        committed = _done(self._store.commit(plan.batch()))
        settle(state, plan, committed, now=now)
        return bool(plan.changes) or any(committed.claimed)

    def _tokens(self) -> dict[str, float]:
        prefix = f"{self._job.type} "
        found = _done(self._store.records(RecordKind.RATE))
        return {it.name.removeprefix(prefix): float(it.document or b"0") for it in found}


def _done(work: Coroutine[Any, Any, T]) -> T:
    """Run what never waits to its end."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the store in memory never waits")


def _ours(job: Job) -> Job:
    """The job as one that this dispatcher has claimed, if anybody has."""
    if job.dispatcher is None:
        return job
    return replace(job, dispatcher=replace(job.dispatcher, id=NAME))


def _some(situation: Situation) -> list[Worker]:
    """Return the workers that count, each with so many slots as are free; it holds nothing then."""
    ordered = sorted(
        situation.workers,
        key=lambda it: (situation.pauses.drains(it), not free_slots(it), len(it.handlers), it.id),
    )
    return [
        replace(
            worker,
            max_jobs=free_slots(worker),
            jobs=(),
            places=(),
            handlers=tuple(replace(it, limits=None) for it in worker.handlers),
        )
        for worker in ordered[:MOST_WORKERS]
    ]


def _scaled(situation: Situation) -> tuple[JobLimits | None, dict[str, int], int]:
    """Return limits, and how many places are taken, as small numbers with the same room left."""
    limits, held, total_held = situation.limits, dict(situation.held), situation.total_held
    if limits is None or limits.limit is None:
        return limits, {}, 0
    limit = limits.limit
    if limits.per_key is not None:
        excess = max(0, held.get(situation.lane or "", 0) - MOST_STUBS)
        if excess:
            held = {lane: max(0, count - excess) for lane, count in held.items()}
            limit = replace(limit, at_once=max(1, limits.per_key - excess))
    if limits.total is not None:
        excess = max(0, total_held - MOST_STUBS)
        total = max(1, limits.total - excess)
        total_held -= excess
        is_first = not limit.by and limit.at_once is not None
        limit = replace(limit, at_once=total) if is_first else replace(limit, total=total)
    return replace(limits, limit=limit), held, total_held


def _stubs(job: Job, held: dict[str, int], total_held: int) -> list[Job]:
    """Return jobs that occupy so many places of each lane, and of the type."""
    places: list[tuple[str, int | None]] = [
        (lane, number) for lane, count in held.items() for number in range(count)
    ]
    places += [(job.lane or "", None)] * (total_held - len(places))
    return [
        Job(
            id=f"{NAME}{number}",
            type=job.type,
            created=job.created,
            updated=job.created,
            status=Status.IN_PROGRESS,
            dispatcher=Dispatch(NAME, job.created, job.created),
            lane=lane,
            execution=Execution(
                worker_id=NAME,
                limit_place=place,
                total_place=number if number < total_held else None,
            ),
        )
        for number, (lane, place) in enumerate(places)
    ]


class _NobodyLink:
    """Speaks to nobody."""

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None: ...

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None: ...

    def send_taken(
        self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False
    ) -> None: ...

    def send_pong(self, worker_id: str, beat: int) -> None: ...

    def send_note(self, worker_id: str, text: str) -> None: ...


_LINK = _NobodyLink()
