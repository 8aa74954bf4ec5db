"""Limits under seeded faults: four dispatchers, deaths, and never one job more than may run."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from msgspec.structs import replace

from long_runs import IS_LONG
from shunter.model import lane_claim, lifecycle
from shunter.model.job import Execution, Job, Status
from shunter.model.job_limits import place_text
from shunter.model.lifecycle import Event
from shunter.store import memory
from shunter.testing.simulation.generator import limited_scenario_of
from shunter.testing.simulation.scenario import Fault, FaultKind
from shunter.testing.simulation.simulator import simulate

SEEDS = range(1, 201 if IS_LONG else 9)


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_hold_whatever_dies(seed: int) -> None:
    found = simulate(limited_scenario_of(seed))

    assert found.violation is None
    assert found.events[Status.QUEUED, Event.CLAIMED] >= 30


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_limit_of_five_no_place_is_taken_twice_or_lost_when_dispatchers_are_killed(
    seed: int,
) -> None:
    random = Random(seed)
    scenario = limited_scenario_of(seed)
    kills = [
        Fault(kind=FaultKind.KILL, at=1.0 + random.random() * 6.0, target=target, seconds=2.5)
        for target in (*scenario.dispatchers, "w1")
    ]

    found = simulate(
        replace(scenario, limit=5, faults=tuple(sorted(kills, key=lambda kill: kill.at)))
    )

    assert found.violation is None
    assert found.events[Status.QUEUED, Event.CLAIMED] >= 30


def test_a_claim_that_ignores_the_places_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_claim.LaneState, "room", lambda state, lane: 1)
    monkeypatch.setattr(lane_claim.LaneState, "total_room", 99)
    monkeypatch.setattr(lane_claim, "_free_numbers", lambda taken, *_: count(len(taken)))
    quiet = replace(limited_scenario_of(1), faults=(), limit=3)

    found = simulate(quiet)

    assert found.violation is not None
    assert found.violation.rule == "limits hold"


def test_places_that_are_never_left_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def held_for_ever(job: Job) -> str | None:
        number = job.execution.limit_place
        return None if number is None else place_text(job.type, job.lane or "", number)

    def closed(run: Execution, started: float | None, ended: float) -> Execution:
        return replace(run, started=started, ended=ended)

    monkeypatch.setattr(lifecycle, "_closed", closed)
    monkeypatch.setitem(memory._PLACES, "_limit_places", held_for_ever)
    quiet = replace(limited_scenario_of(1), faults=(), limit=3)

    found = simulate(quiet)

    assert found.violation is not None
    assert found.violation.rule == "free places are taken"
