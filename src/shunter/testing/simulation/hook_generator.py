"""Scenarios in which jobs fail for good, in all ways, and hooks are to be called for them."""

from __future__ import annotations

from random import Random

from shunter.model.worker import WorkerKind
from shunter.testing.simulation.generator import OF_DISPATCHERS
from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.scenario import (
    Fault,
    FaultKind,
    PlannedJob,
    PlannedWorker,
    Scenario,
)

FAULTS = (
    FaultKind.KILL,
    FaultKind.KILL,
    FaultKind.ISOLATE,
    FaultKind.FREEZE,
    FaultKind.STORE_ERROR,
    FaultKind.STORE_LOST_ANSWER,
)
KINDS = (WorkerKind.FULL,) * 4 + (WorkerKind.HTTP, WorkerKind.UDP)


def hooked_scenario_of(seed: int) -> Scenario:
    """Return a scenario of jobs that are mostly lost, late, not taken or failed, and faults."""
    random = Random(seed)  # noqa: S311
    dispatchers = ("d1", "d2")[: random.choice((1, 2, 2))]
    workers = tuple(
        PlannedWorker(name=name, slots=2, dispatchers=dispatchers, kind=random.choice(KINDS))
        for name in ("w1", "w2")
    )
    jobs = tuple(_job(number, random) for number in range(1, 9))
    faults = [_fault((*dispatchers, "w1", "w2"), random) for _ in range(random.randint(0, 4))]
    killed = {fault.target for fault in faults if fault.kind is FaultKind.KILL}
    faults = [  # a dispatcher that starts without a store gives up, as it should
        it
        for it in faults
        if it.kind not in OF_DISPATCHERS or it.target in set(dispatchers) - killed
    ]
    return Scenario(
        seed=seed,
        dispatchers=dispatchers,
        workers=workers,
        clients=("c1",),
        jobs=jobs,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        has_hooks=True,
    )


def _fault(targets: tuple[str, ...], random: Random) -> Fault:
    kind = random.choice(FAULTS)
    spans = (0.05, 0.3, 0.8, 2.0) if kind in OF_DISPATCHERS else (0.8, 2.5, 5.5, 11.0)
    return Fault(
        kind=kind,
        at=round(0.3 + random.random() * 5.0, 3),
        target=random.choice(targets),
        seconds=random.choice(spans),
        amount=random.choice((0, 1, 3, 10, 40)),
    )


def _job(number: int, random: Random) -> PlannedJob:
    fails = random.choice((0, 0, 9))
    return PlannedJob(
        id=f"j{number}",
        at=round(0.5 + random.random() * 3.0, 3),
        client="c1",
        task=Task(
            seconds=random.choice((0.05, 0.3, 1.0, 4.0)),
            fails=fails,
            crashes=random.choice((0, 0, 1, 6)),
            ignores=random.choice((0, 1, 2)),
        ),
        timeout=random.choice((None, None, 0.5)),
        retries=random.choice((0, 1)) if fails else 0,
        cancel_after=random.choice((None,) * 6 + (0.5,)),
        at_most_once=random.random() < 0.3,
        expires_in=random.choice((None,) * 5 + (0.05, 2.0)),
    )
