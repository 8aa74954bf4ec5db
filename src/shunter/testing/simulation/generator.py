"""A scenario from a seed: small, varied, and with spans that straddle the system's own."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from msgspec.structs import replace

from shunter.testing.simulation.peer_generator import PEER_FAULTS, with_peers
from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.scenario import (
    Fault,
    FaultKind,
    PlannedJob,
    PlannedWorker,
    Scenario,
)
from shunter.testing.simulation.schedule_generator import with_schedules

SPANS = (0.2, 0.8, 1.5, 2.5, 3.2, 4.5, 5.5, 7.0, 9.0, 11.0, 14.0)
LONG_SPANS = (0.8, 3.2, 5.5, 9.0, 12.0, 16.0)
"""How long things last: around 1, 3, 5, 7 and 10 s, where the system changes its mind."""

OF_DISPATCHERS = frozenset(
    {
        FaultKind.STORE_STALL,
        FaultKind.STORE_LONG_STALL,
        FaultKind.STORE_ERROR,
        FaultKind.STORE_LOST_ANSWER,
        FaultKind.STORE_SLOW,
        FaultKind.CLOCK_OFF,
        FaultKind.CLOCK_JUMP,
    }
)
OFTEN = frozenset({FaultKind.KILL, FaultKind.ISOLATE, FaultKind.FREEZE})
LASTING = frozenset({FaultKind.ISOLATE, FaultKind.FREEZE, FaultKind.FREEZE_PARENT})
DEADLY = (FaultKind.KILL, FaultKind.KILL, FaultKind.ISOLATE, FaultKind.FREEZE)
LASTS_SECONDS = 9.0
OTHERS_CLOCKS = 0.15
"""In this part of the seeds clocks of workers and clients are set, too."""
BETWEEN_TWO = frozenset({FaultKind.CUT, FaultKind.RESET, FaultKind.DELAY, FaultKind.SLOW})


SPECIAL_IN, SPECIAL_AT = 12, 10
"""Of so many seeds one has jobs of which most users have few: they take faults from the others."""


def scenario_of(seed: int, kinds: Collection[FaultKind] = tuple(FaultKind)) -> Scenario:
    """Return the scenario of a seed, with faults of these kinds only."""
    random = Random(seed)  # noqa: S311
    dispatchers = tuple(f"d{n}" for n in range(1, random.choice((1, 1, 2, 2, 2, 3)) + 1))
    clients = tuple(f"c{n}" for n in range(1, random.choice((1, 1, 2)) + 1))
    workers = tuple(
        _worker(f"w{n}", dispatchers, random) for n in range(1, random.choice((1, 2, 2, 3)) + 1)
    )
    jobs = tuple(_job(f"j{n}", clients, random) for n in range(1, random.randint(2, 7) + 1))
    names = (dispatchers, tuple(worker.name for worker in workers), clients)
    count = random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))
    common = sorted(set(kinds) - PEER_FAULTS) or [FaultKind.RESET]
    ordered = [kind for kind in common for _ in range(1 + (kind in OFTEN))]
    moments = [job.at + (job.delay or 0.0) for job in jobs]
    faults = [_fault(random.choice(ordered), *names, moments, random) for _ in range(count)]
    jobs = _with_long_job(jobs, faults, random)
    if seed % SPECIAL_IN == SPECIAL_AT:
        jobs = tuple(map(_debounced if seed // SPECIAL_IN % 2 else _once, jobs))
    scenario = Scenario(
        seed=seed,
        dispatchers=dispatchers,
        workers=workers,
        clients=clients,
        jobs=jobs,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        cooldown=random.choice((0, 0, 0, 0, 0, 300, 1500)),
    )
    return _with_clocks(with_schedules(with_peers(scenario, kinds, SPANS), kinds), kinds)


def _with_clocks(scenario: Scenario, kinds: Collection[FaultKind]) -> Scenario:
    """Set the clocks of some who are no dispatchers, by so much that whoever went by them erred."""
    random = Random(f"clocks of {scenario.seed}")  # noqa: S311
    if FaultKind.CLOCK_JUMP not in kinds or random.random() >= OTHERS_CLOCKS:
        return scenario
    others = [name for name in scenario.names if name not in scenario.dispatchers]
    jumps = [
        Fault(
            kind=FaultKind.CLOCK_JUMP,
            at=round(random.random() * 8.0, 3),
            target=name,
            amount=random.choice((-3600.0, -30.0, -6.0, 6.0, 30.0, 3600.0)),
        )
        for name in random.sample(others, k=(len(others) + 1) // 2)
    ]
    faults = sorted((*scenario.faults, *jumps), key=lambda fault: fault.at)
    return replace(scenario, faults=tuple(faults))


def limited_scenario_of(seed: int) -> Scenario:
    """Return a scenario in which dispatchers compete for the places of two tenants, and die."""
    random = Random(seed)  # noqa: S311
    dispatchers = ("d1", "d2", "d3", "d4")
    workers = tuple(
        PlannedWorker(name=name, slots=6, dispatchers=dispatchers) for name in ("w1", "w2")
    )
    jobs = tuple(
        PlannedJob(
            id=f"j{number}",
            at=round(0.5 + random.random() * 2.0, 3),
            client="c1",
            task=Task(seconds=random.choice((0.05, 0.3, 0.6, 1.5))),
            cancel_after=random.choice((None,) * 9 + (1.0,)),
            tenant=random.choice("AAAB"),
        )
        for number in range(1, 41)
    )
    faults = [
        Fault(
            kind=random.choice(DEADLY),
            at=round(1.0 + random.random() * 6.0, 3),
            target=random.choice((*dispatchers, "w1", "w2")),
            seconds=random.choice((0.8, 2.5, 5.5, 11.0)),
            amount=random.choice((0, 1, 10)),
        )
        for _ in range(random.randint(1, 5))
    ]
    return Scenario(
        seed=seed,
        dispatchers=dispatchers,
        workers=workers,
        clients=("c1",),
        jobs=jobs,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        cooldown=random.choice((0, 0, 300)),
        limit=random.choice((1, 3, 5)),
    )


STEP_FAULTS = (
    FaultKind.KILL,
    FaultKind.KILL,
    FaultKind.ISOLATE,
    FaultKind.FREEZE,
    FaultKind.FREEZE_PARENT,
    FaultKind.RESET,
    FaultKind.STORE_STALL,
    FaultKind.STORE_LOST_ANSWER,
    FaultKind.STORE_ERROR,
    FaultKind.LATE_PACKETS,
)


def stepped_scenario_of(seed: int) -> Scenario:
    """Return a scenario of jobs with steps, sleeps and signals, whose runs and peers die."""
    random = Random(seed)  # noqa: S311
    dispatchers = ("d1", "d2")
    workers = tuple(
        PlannedWorker(name=name, slots=2, dispatchers=dispatchers) for name in ("w1", "w2")
    )
    jobs = tuple(
        PlannedJob(
            id=f"j{number}",
            at=round(0.5 + random.random() * 2.0, 3),
            client="c1",
            task=Task(
                seconds=random.choice((0.02, 0.3, 1.0, 4.0)),
                crashes=random.choice((0, 0, 1, 2)),
                steps=random.choice((1, 2, 3, 4)),
                nap=random.choice((0.0, 0.5, 3.0)),
                told_after=random.choice((None, None, 0.1, 2.0, 6.0)),
            ),
        )
        for number in range(1, 9)
    )
    names = (dispatchers, tuple(worker.name for worker in workers), ("c1",))
    moments = [job.at + job.task.seconds for job in jobs]
    faults = [
        _fault(random.choice(STEP_FAULTS), *names, moments, random)
        for _ in range(random.randint(0, 4))
    ]
    killed = {fault.target for fault in faults if fault.kind is FaultKind.KILL}
    faults = [  # a dispatcher that starts without a store gives up, as it should
        it for it in faults if it.kind not in OF_DISPATCHERS or it.target not in killed
    ]
    return Scenario(
        seed=seed,
        dispatchers=dispatchers,
        workers=workers,
        clients=("c1",),
        jobs=jobs,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def workflow_scenario_of(seed: int) -> Scenario:
    """Return a scenario in which jobs wait for jobs, some of which fail, and processes die."""
    random = Random(seed)  # noqa: S311
    dispatchers = ("d1", "d2", "d3")[: random.choice((1, 2, 2, 3))]
    workers = tuple(
        PlannedWorker(name=name, slots=4, dispatchers=dispatchers) for name in ("w1", "w2")
    )
    jobs: list[PlannedJob] = []
    for number in range(1, random.randint(4, 16)):
        earlier = [job.id for job in jobs]
        after = tuple(random.sample(earlier, min(len(earlier), random.choice((0, 1, 1, 2, 4)))))
        when = random.choice(("all_ok", "all_ok", "all_done", "any_failed")) if after else ""
        jobs.append(
            PlannedJob(
                id=f"j{number}",
                at=0.5,
                client="c1",
                task=Task(
                    seconds=random.choice((0.05, 0.3, 1.5)), fails=random.choice((0, 0, 0, 9))
                ),
                cancel_after=random.choice((None,) * 9 + (1.0,)),
                after=after,
                when=when,
            )
        )
    faults = [
        Fault(
            kind=random.choice((*DEADLY, FaultKind.STORE_ERROR, FaultKind.STORE_LOST_ANSWER)),
            at=round(0.5 + random.random() * 5.0, 3),
            target=random.choice(dispatchers),
            seconds=random.choice((0.8, 2.5, 5.5)),
            amount=random.choice((0, 1, 3, 10, 40)),
        )
        for _ in range(random.randint(1, 5))
    ]
    killed = {fault.target for fault in faults if fault.kind is FaultKind.KILL}
    faults = [  # a dispatcher that starts without a store gives up, as it should
        it for it in faults if it.kind not in OF_DISPATCHERS or it.target not in killed
    ]
    return Scenario(
        seed=seed,
        dispatchers=dispatchers,
        workers=workers,
        clients=("c1",),
        jobs=tuple(jobs),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        is_workflow=True,
    )


def _once(job: PlannedJob) -> PlannedJob:
    """A job that bears no second run; it kills its child, but for one that puts itself off."""
    crashes = 0 if job.id == "j1" else 1
    return replace(job, at_most_once=True, task=replace(job.task, crashes=crashes, snoozes=1))


def _debounced(job: PlannedJob) -> PlannedJob:
    return replace(job, is_debounced=True, unique_key=None, delay=job.delay or 1.5)


def _with_long_job(
    jobs: tuple[PlannedJob, ...], faults: list[Fault], random: Random
) -> tuple[PlannedJob, ...]:
    """Have a job run all through a fault that outlasts a lease, if there is such a fault."""
    lasting = [
        fault for fault in faults if fault.kind in LASTING and fault.seconds >= LASTS_SECONDS
    ]
    if not lasting or random.random() < 0.3:
        return jobs
    place, at = random.randrange(len(jobs)), max(0.1, lasting[0].at - random.random())
    long = PlannedJob(
        id=jobs[place].id,
        at=round(at, 3),
        client=jobs[place].client,
        task=Task(seconds=20.0),
    )
    return (*jobs[:place], long, *jobs[place + 1 :])


def _worker(name: str, dispatchers: tuple[str, ...], random: Random) -> PlannedWorker:
    served = dispatchers
    if len(dispatchers) > 1 and random.random() < 0.15:
        served = (random.choice(dispatchers),)
    return PlannedWorker(name=name, slots=random.choice((1, 1, 2, 3)), dispatchers=served)


def _job(job_id: str, clients: tuple[str, ...], random: Random) -> PlannedJob:
    fails = random.choice((0, 0, 0, 0, 0, 1))
    crashes = random.choice((0,) * 24 + (1, 1, 2, 2, 6))
    task = Task(
        seconds=0.1
        if crashes > 1
        else random.choice((0.02, 0.3, 1.0, 1.0, 2.0, 4.0, 7.0, 17.0))
        * (0.8 + 0.4 * random.random()),
        fails=fails,
        crashes=crashes,
        ignores=random.choice((0, 0, 1, 2)),
        progress=random.random() < 0.2,
        padding=bytes(random.choice((0, 0, 0, 3000))),
    )
    is_unique = random.random() < 0.2
    if is_unique:
        task = Task(seconds=1.0)
    return PlannedJob(
        id=job_id,
        at=round(random.random() * 6.0, 3),
        client=random.choice(clients),
        task=task,
        timeout=random.choice((None, None, None, 2.0, 5.0)),
        retries=random.choice((0, 1, 2)) if fails else 0,
        delay=random.choice((None, None, None, None, 0.5, 3.0)),
        unique_key="the key" if is_unique else None,
        cancel_after=random.choice((None, None, None, None, 0.1, 1.5, 4.0)),
    )


def _fault(
    kind: FaultKind,
    dispatchers: tuple[str, ...],
    workers: tuple[str, ...],
    clients: tuple[str, ...],
    moments: list[float],
    random: Random,
) -> Fault:
    at = 0.2 + random.random() * 8.0
    if random.random() < 0.5:  # just when something happens to a job
        at = random.choice(moments) + random.random() * random.choice((0.01, 0.1))
    at = round(at, 4)
    seconds = random.choice(SPANS)
    anyone = (*dispatchers, *workers, *workers, *clients[:1])
    target, other, amount = random.choice(anyone), "", 0.0
    if kind in OF_DISPATCHERS:
        target = random.choice(dispatchers)
    elif kind in (FaultKind.FREEZE_PARENT, FaultKind.SLOW_DEATH):
        target = random.choice(workers)
        seconds = random.choice(LONG_SPANS)
    elif kind is FaultKind.FREEZE:
        target = random.choice((*dispatchers, *workers, *workers))
        seconds = random.choice(LONG_SPANS)
    elif kind is FaultKind.ISOLATE:
        target = random.choice((*dispatchers, *workers, *workers, *workers))
        seconds = random.choice(LONG_SPANS)
    elif kind in BETWEEN_TWO:
        pair = [random.choice(dispatchers), random.choice((*workers, *workers, *clients))]
        random.shuffle(pair)
        target, other = pair
    match kind:
        case FaultKind.KILL:
            amount = random.choice((0, 0, 1, 3, 10, 40))
        case FaultKind.RESET:
            seconds = 0.0
        case FaultKind.LATE_PACKETS:
            at, seconds = 0.0, 0.0
        case FaultKind.SLOW_DEATH:
            at, seconds, amount = 0.1, 0.0, 1.5
        case FaultKind.DELAY:
            amount = random.choice((0.1, 0.5, 1.5))
        case FaultKind.SLOW:
            amount = random.choice((300.0, 2000.0))
        case FaultKind.STORE_STALL:
            seconds = random.choice((0.2, 0.8, 1.5))
        case FaultKind.STORE_LONG_STALL:
            seconds = random.choice((4.5, 7.0, 12.0))
        case FaultKind.STORE_ERROR | FaultKind.STORE_LOST_ANSWER:
            seconds = random.choice((0.05, 0.3, 0.8, 2.0))
        case FaultKind.STORE_SLOW:
            amount = random.choice((0.02, 0.1, 0.3))
        case FaultKind.CLOCK_OFF:
            at, seconds = 0.0, 0.0
            amount = round(random.uniform(-1.2, 1.2), 3)
        case FaultKind.CLOCK_JUMP:
            seconds = 0.0
            amount = random.choice((-30.0, -6.0, 6.0, 30.0))
    return Fault(kind=kind, at=at, target=target, other=other, seconds=seconds, amount=amount)
