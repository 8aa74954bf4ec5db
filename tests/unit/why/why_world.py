"""Whole systems at random moments: a real dispatcher over a store, in which one job may be kept.

A `World` is data, drawn from a seed. `System` is what it looks like with a dispatcher in it that
has started all it could; `remove` does to it what people and time would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.arrivals import Survey, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.model.explanation import ChangeKind, Reason, ReasonKind, SmallestChange
from shunter.model.job import Dispatch, Execution, Job, Status, When
from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.journal import EntryKind, JournalEntry
from shunter.model.limits_record import LimitsRecord, record_of
from shunter.model.pause import Pause, PauseTarget, all_of
from shunter.model.pause import record_of as pause_record
from shunter.model.place_guess import LaneLook
from shunter.model.record import Record, RecordKind
from shunter.model.report import Held
from shunter.model.waits import WaitKind, Waits
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.memory import MemoryStore
from shunter.store.port import Batch
from shunter.testing import VirtualClock
from shunter.testing.finish import finish

NOW = 1_700_000_000.0
TYPE, OTHER = "resize", "mail"
ME = "d-1"


class World(Struct, kw_only=True):
    """What there is, before a dispatcher comes."""

    job: Job
    workers: list[Worker]
    running: list[Job]
    waiting: list[Job]
    parents: list[Job]
    pauses: list[Pause]
    limits: JobLimits | None
    next_at: float | None


def a_job(name: str, job_type: str = TYPE, **changes: Any) -> Job:
    fields: dict[str, Any] = {"created": NOW - 100.0, "updated": NOW - 100.0}
    return Job(id=name, type=job_type, payload=b"\x90", **(fields | changes))


def a_worker(name: str, *types: str, slots: int, **changes: Any) -> Worker:
    fields: dict[str, Any] = {
        "kind": WorkerKind.FULL, "hostname": "", "port": 0, "registered": NOW, "last_pinged": NOW,
    }  # fmt: skip
    handlers = tuple(Handler(it) for it in types)
    return Worker(id=name, handlers=handlers, max_jobs=slots, **(fields | changes))


def drawn(seed: int) -> World:
    """Draw a world."""
    draw = Random(seed)
    limits = _limits(draw)
    workers, running = _workers(draw, limits)
    pauses = [Pause(target=PauseTarget.TYPE, name=TYPE)] if draw.random() < 0.15 else []
    if draw.random() < 0.1:
        pauses.append(Pause(target=PauseTarget.TYPE, name=OTHER))
    drained = [worker.id for worker in workers if draw.random() < 0.12]
    pauses += [Pause(target=PauseTarget.WORKER, name=name) for name in drained]
    if draw.random() < 0.1:
        pauses.append(Pause(target=PauseTarget.VERSION, name="1"))
    waiting = [
        a_job(
            f"other-{number}",
            TYPE if draw.random() < 0.7 else OTHER,
            created=NOW - draw.choice([150.0, 120.0, 100.0, 50.0]) + number / 100,
            priority=draw.choice([0, 0, 0, 1]),
            keys={"tenant": draw.choice("ab")},
        )
        for number in range(draw.choice([0, 0, 0, 1, 2, 4]))
    ]
    job, parents = _target(draw)
    next_at = NOW + draw.choice([-1.0, 4.0]) if limits and limits.rate else None
    return World(
        job=_in_lane(job, limits),
        workers=workers,
        running=running,
        waiting=[_in_lane(it, limits) for it in waiting],
        parents=parents,
        pauses=list({it.id: it for it in pauses}.values()),
        limits=limits,
        next_at=next_at,
    )


def _limits(draw: Random) -> JobLimits | None:
    few = draw.choice([1, 2, 3])
    return draw.choice(
        [
            None,
            None,
            None,
            JobLimits(limit=Limit(few)),
            JobLimits(limit=Limit(few, by="tenant")),
            JobLimits(limit=Limit(few, by="tenant", total=few + draw.choice([0, 1]))),
            JobLimits(limit=Limit(few, by="tenant"), fair="tenant"),
            JobLimits(rate=Rate(1, per=5.0)),
            JobLimits(rate=Rate(1, per=5.0, by="tenant"), limit=Limit(few, by="tenant")),
        ]
    )


def _workers(draw: Random, limits: JobLimits | None) -> tuple[list[Worker], list[Job]]:
    """Draw workers that are mostly full, and what they run: of the type no more than may."""
    workers: list[Worker] = []
    running: list[Job] = []
    held: dict[str, int] = {}
    total = 0
    for number in range(draw.choice([0, 1, 1, 2, 3])):
        types = draw.choice([(TYPE,), (TYPE, OTHER), (TYPE, OTHER), (OTHER,)])
        kind = WorkerKind.HTTP if draw.random() < 0.15 else WorkerKind.FULL
        slots = draw.choice([1, 2, 3])
        worker = a_worker(
            f"w-{number}", *types, slots=slots, kind=kind, version=draw.choice(["", "1"])
        )
        is_gone = draw.random() < 0.1
        workers.append(replace(worker, is_dead=is_gone))
        busy = slots if draw.random() < 0.7 else draw.randrange(slots + 1)
        for place in range(0 if is_gone else busy):
            job_type, keys = draw.choice(types), {"tenant": draw.choice("ab")}
            lane = limits.lane(keys) if limits and job_type == TYPE else None
            run = Execution(
                worker_id=worker.id,
                sent=NOW - draw.random() * 50,
                place=place if kind is WorkerKind.HTTP else None,
            )
            if lane is not None and limits is not None:
                is_full = limits.per_key is not None and held.get(lane, 0) >= limits.per_key
                if is_full or (limits.total is not None and total >= limits.total):
                    continue
                if limits.per_key is not None:
                    run = replace(run, limit_place=held.get(lane, 0))
                if limits.total is not None:
                    run = replace(run, total_place=total)
                held[lane] = held.get(lane, 0) + 1
                total += 1
            running.append(
                a_job(
                    f"run-{number}-{place}",
                    job_type,
                    status=Status.IN_PROGRESS,
                    attempt=1,
                    lane=lane,
                    keys=keys,
                    execution=run,
                    dispatcher=Dispatch(ME, NOW - 60.0, NOW - 55.0),
                )
            )
    return workers, running


def _target(draw: Random) -> tuple[Job, list[Job]]:
    """Draw the job that is asked about, and the jobs that it waits for."""
    job = a_job("job", priority=draw.choice([0, 0, 0, 1]), keys={"tenant": draw.choice("ab")})
    way = draw.choice(["ready"] * 8 + ["later", "retried", "claimed", "parents", "children"])
    way = draw.choice([way, way, way, "sleep", "signal"]) if draw.random() < 0.3 else way
    parents = [
        a_job(f"parent-{number}", "parent", dependents=True)
        for number in range(draw.choice([1, 3]))
    ]
    match way:
        case "later":
            return replace(job, wait_until=NOW + 30.0, not_before=NOW + 30.0), []
        case "retried":
            return replace(job, wait_until=NOW + 2.0, attempt=1), []
        case "claimed":
            claim = Dispatch(ME, NOW - 1.0, NOW + 4.0)
            return replace(job, status=Status.DISPATCHING, dispatcher=claim), []
        case "parents":
            return replace(job, status=Status.WAITING, when=When.ALL_OK), parents
        case "children":
            waits = Waits("step", WaitKind.CHILDREN, NOW - 9.0, children=len(parents))
            return replace(job, status=Status.WAITING, attempt=1, waits=waits), parents
        case "sleep":
            waits = Waits("step", WaitKind.SLEEP, NOW - 9.0, until=NOW + 9.0)
            parked = replace(job, status=Status.WAITING, attempt=1, waits=waits)
            return replace(parked, wait_until=NOW + 9.0), []
        case "signal":
            waits = Waits("step", WaitKind.SIGNAL, NOW - 9.0, signal="go")
            return replace(job, status=Status.WAITING, attempt=1, waits=waits), []
        case _:
            return job, []


def _in_lane(job: Job, limits: JobLimits | None) -> Job:
    is_limited = limits is not None and job.type == TYPE
    return replace(job, lane=limits.lane(job.keys)) if is_limited and limits else job


class _Silence:
    """Links of all workers."""

    def __getattr__(self, name: str) -> Any:
        return lambda *said: None


class System:
    """A dispatcher that has come to rest in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = VirtualClock(NOW)
        self.store = MemoryStore()
        self.dispatcher = Dispatcher(
            self.store, dispatcher_id=ME, rules=Rules(), now=self.clock, jitter=lambda: 0.5
        )
        self._fill()
        self._tell()
        self.rest()
        self.dispatcher.state.had_turn(TYPE)  # its turn was last: only dispatchers know that
        if world.job.lane is not None:
            self.dispatcher.state.limits.saw(TYPE, LaneLook(world.job.lane), started=0)

    def _fill(self) -> None:
        world, store = self.world, self.store
        finish(store.open())
        edges = tuple(JobEdge(world.job.id, parent.id) for parent in world.parents)
        graph = JobGraph(jobs=(*world.parents, world.job), edges=edges)
        inserts = [*world.running, *world.waiting]
        finish(store.commit(Batch(now=NOW, inserts=inserts, graphs=[graph])))
        finish(store.put_workers(world.workers))
        finish(store.swap_records([replace(pause_record(it), revision=1) for it in world.pauses]))
        if world.limits is not None:
            finish(store.swap_records([record_of(TYPE, self._limits_record(world.limits))]))
        if world.next_at is not None and world.limits is not None:
            self._put_bucket(world.next_at, revision=1)

    def _put_bucket(self, next_at: float, *, revision: int) -> None:
        assert self.world.limits is not None
        name = f"{TYPE} {self.world.limits.bucket(self.world.job.lane or '')}"
        document = repr(next_at).encode()
        rate = Record(kind=RecordKind.RATE, name=name, revision=revision, document=document)
        assert finish(self.store.swap_records([rate])) == [True]

    @staticmethod
    def _limits_record(limits: JobLimits) -> LimitsRecord:
        return LimitsRecord(changed=limits, revision=1)

    def _tell(self) -> None:
        dispatcher, world = self.dispatcher, self.world
        dispatcher.hold_back(all_of(world.pauses))
        if world.limits is not None:
            dispatcher.learn_limits({TYPE: self._limits_record(world.limits)})
        for worker in world.workers:
            if worker.kind is WorkerKind.FULL and not worker.is_dead:
                held = [it for it in world.running if it.execution.worker_id == worker.id]
                self._introduce(worker, [Held(it.id, it.attempt) for it in held])
        self._survey()
        dispatcher.expect_waiting()

    def _introduce(self, worker: Worker, held: Sequence[Held] = ()) -> None:
        arrival = WorkerRegistered(worker, _Silence(), frozenset(held), worker.max_jobs, 1, NOW)
        self.dispatcher.introduce(arrival)

    def _survey(self) -> None:
        shared = [it for it in finish(self.store.workers()) if it.kind is WorkerKind.HTTP]
        self.dispatcher.survey(Survey(shared, self.clock(), _Silence()))

    def rest(self) -> None:
        """Take turns until nothing is left to do."""
        for _ in range(60):
            if not self.dispatcher.has_work or not finish(self.dispatcher.turn()):
                return
        raise AssertionError("the dispatcher does not come to rest")

    @property
    def job(self) -> Job:
        (job,) = finish(self.store.get([self.world.job.id]))
        assert job is not None
        return job

    @property
    def is_started(self) -> bool:
        return self.job.status is Status.IN_PROGRESS

    # ---- what people and time do

    def remove(self, reasons: Sequence[Reason]) -> None:
        """Take away what is named: older jobs first, then what the job waits for, then the rest."""
        later = sorted(reasons, key=lambda it: _ORDER.index(it.kind))
        for reason in later:
            getattr(self, f"_without_{_ACTIONS[reason.kind]}")(reason)
            self.rest()

    def change(self, change: SmallestChange) -> None:
        """Make one change."""
        value = change.value or 0
        match change.kind:
            case ChangeKind.RESUME:
                self._without_pause(None)
            case ChangeKind.UNDRAIN:
                kept = [it for it in self.world.pauses if it.name != change.target]
                self.dispatcher.hold_back(all_of(kept))
            case ChangeKind.SERVE | ChangeKind.SLOTS:
                self._introduce(a_worker("extra", TYPE, slots=value))
            case ChangeKind.LIMIT:
                self._limit(at_once=value)
            case ChangeKind.TOTAL:
                self._total(value)
            case ChangeKind.RATE:
                assert self.world.limits is not None
                self._learn(replace(self.world.limits, rate=None))
            case ChangeKind.SIGNAL:
                self._without_signal(None)
            case ChangeKind.JOBS:
                self._without_parents(None)
            case ChangeKind.WAIT:
                assert change.at is not None
                self._wait(change.at)
        self.rest()

    def _without_time(self, reason: Any) -> None:
        self._wait(reason.until)

    def _wait(self, until: float) -> None:
        self.clock.advance(max(0.0, until - self.clock()))
        self.dispatcher.look_at(finish(self.store.alarms(now=self.clock(), limit=100)))
        self.dispatcher.expect_waiting()

    def _without_rate(self, _: Any) -> None:
        (bucket,) = finish(self.store.records(RecordKind.RATE))[:1]
        self._put_bucket(self.clock() - 1.0, revision=bucket.revision + 1)
        self.dispatcher.expect_waiting()

    def _without_parents(self, _: Any) -> None:
        for parent in finish(self.store.get([it.id for it in self.world.parents])):
            assert parent is not None
            ended = replace(parent, status=Status.COMPLETED, revision=parent.revision + 1)
            assert finish(self.store.replace([ended])) == [True]
            self.dispatcher.tell_dependents([ended])

    def _without_signal(self, _: Any) -> None:
        entry = JournalEntry(
            job_id=self.world.job.id,
            kind=EntryKind.SIGNAL,
            key="1",
            name="go",
            attempt=0,
            at=NOW,
            body=b"\xc0",
        )
        self.dispatcher.signal([entry], lambda receipts: None)

    def _without_pause(self, _: Any) -> None:
        is_this = (PauseTarget.TYPE, TYPE)
        kept = [it for it in self.world.pauses if (it.target, it.name) != is_this]
        self.dispatcher.hold_back(all_of(kept))

    def _without_fullness(self, _: Any) -> None:
        self._introduce(a_worker("extra", TYPE, slots=1))

    def _without_limit(self, reason: Any) -> None:
        limits = self.world.limits
        assert limits is not None
        assert limits.per_key is not None
        self._limit(at_once=max(limits.per_key, reason.count) + 1)

    def _without_total(self, reason: Any) -> None:
        limits = self.world.limits
        assert limits is not None
        assert limits.total is not None
        self._total(max(limits.total, reason.count) + 1)

    def _limit(self, *, at_once: int) -> None:
        limits = self._limits_now()
        assert limits.limit is not None
        self._learn(replace(limits, limit=replace(limits.limit, at_once=at_once)))

    def _total(self, value: int) -> None:
        limits = self._limits_now()
        assert limits.limit is not None
        name = "total" if limits.limit.by else "at_once"
        self._learn(replace(limits, limit=replace(limits.limit, **{name: value})))

    def _limits_now(self) -> JobLimits:
        limits = self.dispatcher.state.limits.of(TYPE)
        assert limits is not None
        return limits

    def _learn(self, limits: JobLimits) -> None:
        self.dispatcher.learn_limits({TYPE: self._limits_record(limits)})

    def _without_older(self, _: Any) -> None:
        found = finish(self.store.get([it.id for it in self.world.waiting]))
        ids = [it.id for it in found if it and it.status is Status.QUEUED]
        self.dispatcher.cancel(ids, lambda receipts: None)


_ACTIONS = {
    ReasonKind.OLDER: "older",
    ReasonKind.TIME: "time",
    ReasonKind.SLEEP: "time",
    ReasonKind.CLAIMED: "time",
    ReasonKind.PARENTS: "parents",
    ReasonKind.CHILDREN: "parents",
    ReasonKind.SIGNAL: "signal",
    ReasonKind.PAUSED: "pause",
    ReasonKind.RATE: "rate",
    ReasonKind.LIMIT: "limit",
    ReasonKind.TOTAL: "total",
    ReasonKind.UNSERVED: "fullness",
    ReasonKind.DRAINED: "fullness",
    ReasonKind.FULL: "fullness",
}
_ORDER = list(_ACTIONS)
