"""Schedules for a scenario: some tick during its faults, and some all through a long outage.

They take the place of most of its jobs, so the runs stay small.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from msgspec.structs import replace

from shunter.model.schedule import Overlap
from shunter.model.timing import Cron, Every, ticks_between
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.processes import EPOCH
from shunter.testing.simulation.scenario import (
    Fault,
    FaultKind,
    PlannedSchedule,
    Scenario,
)

SCHEDULED_IN, SCHEDULED_AT = 12, 4
"""Of so many seeds one has schedules."""

OUTAGE_IN = 6
"""Of so many of those one has no dispatcher for longer than a tick may be late."""

OUTAGE_SECONDS = 85.0
FAULTS_UNTIL = 12.0
JOBS_KEPT = 2

STORE_SECONDS = {
    FaultKind.STORE_LONG_STALL: (4.5, 7.0),
    FaultKind.STORE_ERROR: (0.3, 2.0),
    FaultKind.STORE_LOST_ANSWER: (0.3, 2.0),
}


def with_schedules(scenario: Scenario, kinds: Collection[FaultKind]) -> Scenario:
    """Return the scenario with schedules, if its seed says so."""
    if scenario.seed % SCHEDULED_IN != SCHEDULED_AT:
        return scenario
    random = Random(f"schedules of {scenario.seed}")  # noqa: S311
    is_outage = scenario.seed // SCHEDULED_IN % OUTAGE_IN == 0 and FaultKind.KILL in kinds
    may_declare = any(worker.kind is not WorkerKind.UDP for worker in scenario.workers)
    schedules = tuple(
        _schedule(name, scenario.clients, may_declare, is_outage, random)
        for name in ("s1", "s2")[: random.choice((1, 1, 2))]
    )
    scenario = replace(scenario, jobs=scenario.jobs[:JOBS_KEPT], schedules=schedules)
    faults = _outage(scenario) if is_outage else _faults(scenario, kinds, random)
    return replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _schedule(
    name: str, clients: tuple[str, ...], may_declare: bool, is_outage: bool, random: Random
) -> PlannedSchedule:
    every = Every(random.choice((7.0, 11.0) if is_outage else (1.0, 2.0, 3.0, 5.0)))
    timings = (every, every, every, every, every if is_outage else Cron("* * * * *"))
    overlaps = (Overlap.ALL, Overlap.ALL, Overlap.ONE, Overlap.SKIP)
    return PlannedSchedule(
        name=name,
        client=random.choice(clients),
        timing=random.choice(timings),
        task=Task(seconds=random.choice((0.1, 0.1, 0.7, 2.4, 6.0))),
        at=round(random.random() * 1.5, 3),
        overlap=random.choice(overlaps if is_outage else tuple(Overlap)),
        catch_up=random.choice((0.0, 70.0, 3600.0)),
        jitter=random.choice((0.0, 0.0, 0.4)),
        is_declared=may_declare and random.random() < 0.5,
    )


def _outage(scenario: Scenario) -> list[Fault]:
    """All dispatchers are gone, for a long while."""
    return [
        Fault(kind=FaultKind.KILL, at=8.0, target=name, seconds=OUTAGE_SECONDS)
        for name in scenario.dispatchers
    ]


def _faults(scenario: Scenario, kinds: Collection[FaultKind], random: Random) -> list[Fault]:
    """Some of its faults, and others that come just when a tick does."""
    faults = list(scenario.faults)[:2]
    schedule = scenario.schedules[0]
    moments = ticks_between(schedule.timing, EPOCH + 2, EPOCH + FAULTS_UNTIL, most=20)
    possible = [FaultKind.KILL, FaultKind.KILL, FaultKind.CLOCK_JUMP, *STORE_SECONDS]
    possible = [kind for kind in possible if kind in kinds]
    for _ in range(random.choice((0, 1, 1, 2))):
        if not possible or not moments:
            break
        kind = random.choice(possible)
        faults.append(
            Fault(
                kind=kind,
                at=round(random.choice(moments) - EPOCH + random.random() * 0.2, 4),
                target=random.choice(scenario.dispatchers),
                seconds=random.choice(STORE_SECONDS.get(kind, (0.8, 2.5, 5.5))),
                amount=_amount(kind, random),
            )
        )
    killed = {fault.target for fault in faults if fault.kind is FaultKind.KILL}
    return [  # a dispatcher that starts without a store gives up, as it should
        fault for fault in faults if fault.kind not in STORE_SECONDS or fault.target not in killed
    ]


def _amount(kind: FaultKind, random: Random) -> float:
    if kind is FaultKind.CLOCK_JUMP:
        return random.choice((-30.0, -6.0, 6.0, 30.0))
    return random.choice((0, 1, 3, 10, 20, 40)) if kind is FaultKind.KILL else 0.0
