"""Limits under seeded faults: four dispatchers, deaths, and never one job more than may run."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from shunter.model import lane_claim, lifecycle
from shunter.model.job import Execution, Job, Status
from shunter.model.job_limits import place_text
from shunter.model.lifecycle import Event
from shunter.store import memory
from shunter.testing.simulation.generator import limited_scenario_of
from shunter.testing.simulation.simulator import simulate


@pytest.mark.parametrize("seed", range(1, 9))
def test_limits_hold_whatever_dies(seed: int) -> None:
    found = simulate(limited_scenario_of(seed))

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
