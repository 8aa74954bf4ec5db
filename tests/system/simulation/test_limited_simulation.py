"""Limits under seeded faults: four dispatchers, deaths, and never one job more than may run."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from shunter.model import lane_claim
from shunter.model.job import Status
from shunter.model.lifecycle import Event
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
