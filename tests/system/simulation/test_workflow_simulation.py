"""Workflows under seeded faults: nobody starts before its parents, and nobody stays parked."""

from __future__ import annotations

from typing import Any

import pytest

from long_runs import IS_LONG
from shunter.dispatch import dependents
from shunter.model.job import Status
from shunter.model.lifecycle import Event
from shunter.model.workflow import Decision
from shunter.testing.simulation.generator import workflow_scenario_of
from shunter.testing.simulation.simulator import simulate

SEEDS = range(1, 501 if IS_LONG else 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_wait_for_jobs_whatever_dies(seed: int) -> None:
    found = simulate(workflow_scenario_of(seed))

    assert found.violation is None


def hunted() -> str:
    """Return the first rule that does not hold."""
    for seed in range(1, 60):
        violation = simulate(workflow_scenario_of(seed)).violation
        if violation is not None:
            return violation.rule
    return ""


def test_parents_that_are_done_with_before_their_children_know_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(queue: Any, edges: Any, plan: Any) -> None:
        original(queue, edges, plan)
        if queue._planned is not None:
            queue._planned.children.clear()

    original = dependents.DependentsQueue._plan_outcomes
    monkeypatch.setattr(dependents.DependentsQueue, "_plan_outcomes", hasty)

    assert hunted() == "nothing is stranded"


def test_a_child_that_is_woken_by_its_first_parent_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dependents, "decision_on", lambda when, outcomes: Decision.RUN)

    assert hunted() == "no child before its parents"


def test_the_seeds_wake_and_cancel_parked_jobs() -> None:
    found = simulate(workflow_scenario_of(2))

    assert found.events[Status.WAITING, Event.WOKEN]
