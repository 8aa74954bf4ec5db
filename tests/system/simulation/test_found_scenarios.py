"""Scenarios, made small, that broke a rule once."""

from __future__ import annotations

from typing import Any

from shunter.model.worker import WorkerKind
from shunter.testing.simulation.pool import Task
from shunter.testing.simulation.scenario import (
    Fault,
    FaultKind,
    PlannedJob,
    PlannedWorker,
    Scenario,
)
from shunter.testing.simulation.simulator import simulate

STUBBORN = Task(seconds=4.0, ignores=2)
"""Only SIGKILL stops it."""


def job(number: int, at: float, task: Task, **more: Any) -> PlannedJob:
    return PlannedJob(id=f"j{number}", at=at, client="c1", task=task, **more)


def of_two_calculators(*jobs: PlannedJob, faults: tuple[Fault, ...]) -> Scenario:
    workers = tuple(
        PlannedWorker(name=name, slots=2, dispatchers=("d1",), kind=WorkerKind.UDP)
        for name in ("w1", "w2")
    )
    return Scenario(
        seed=91, dispatchers=("d1",), workers=workers, clients=("c1",), jobs=jobs, faults=faults
    )


def test_a_calculator_that_is_back_keeps_what_a_slow_write_started_on_it() -> None:
    found = simulate(
        of_two_calculators(
            job(1, 2.536, Task(seconds=4.0)),
            job(2, 2.310, Task(seconds=1.0)),
            job(4, 2.699, Task(seconds=4.0)),
            job(6, 0.710, STUBBORN, timeout=0.5, cancel_after=0.5),
            job(8, 1.534, Task(seconds=1.0)),
            faults=(
                Fault(kind=FaultKind.STORE_STALL, at=1.15, target="d1", seconds=2.0),
                Fault(kind=FaultKind.STORE_LOST_ANSWER, at=3.461, target="d1", seconds=2.0),
            ),
        )
    )

    assert found.violation is None


def test_a_report_on_a_run_that_one_dispatcher_knows_is_not_refused_by_another() -> None:
    found = simulate(
        Scenario(
            seed=105,
            dispatchers=("d1", "d2"),
            workers=(PlannedWorker(name="w2", slots=2, dispatchers=("d1", "d2")),),
            clients=("c1",),
            jobs=(job(2, 0.8, Task(seconds=4.0, crashes=1)),),
            faults=(
                Fault(kind=FaultKind.STORE_LOST_ANSWER, at=4.239, target="d2", seconds=9.0),
                Fault(kind=FaultKind.STORE_LOST_ANSWER, at=5.088, target="d1", seconds=9.0),
            ),
        )
    )

    assert found.violation is None


def test_a_heartbeat_that_waited_for_the_store_renews_no_dead_workers_lease() -> None:
    workers = tuple(PlannedWorker(name=name, slots=2, dispatchers=("d1",)) for name in ("w1", "w2"))
    found = simulate(
        Scenario(
            seed=104,
            dispatchers=("d1",),
            workers=workers,
            clients=("c1",),
            jobs=(job(7, 1.048, Task(seconds=4.0)), job(8, 0.962, Task(seconds=0.05))),
            faults=(
                Fault(
                    kind=FaultKind.STORE_LOST_ANSWER, at=2.194, target="d1", seconds=12.0, amount=10
                ),
                Fault(kind=FaultKind.KILL, at=3.28, target="w2", seconds=15.0, amount=3),
            ),
        )
    )

    assert found.violation is None
