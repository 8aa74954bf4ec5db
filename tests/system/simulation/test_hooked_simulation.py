"""Final failures under seeded faults: hooks are called for each, by its run or by one job."""

from __future__ import annotations

from typing import Any

import pytest

from long_runs import IS_LONG
from shunter.dispatch import dependents, placement, planner
from shunter.model import final_failure
from shunter.testing.simulation.hook_generator import hooked_scenario_of
from shunter.testing.simulation.hook_judge import RULE
from shunter.testing.simulation.simulator import simulate

FIRST_TURNS = [4279, 4652, 4663]
"""A dispatcher ends jobs with the first turn that it ever takes."""

REPEATED_SUBMISSIONS = [1434]
"""A client repeats the submission of a job that was started and never arrived at its worker."""

GREETED_ANEW = [3791]
"""A worker says READY to a dispatcher that has died, and another one reads it in its place."""

FOUND = [*FIRST_TURNS, *REPEATED_SUBMISSIONS, *GREETED_ANEW]
SEEDS = [*range(1, 1001 if IS_LONG else 41), *FOUND]


@pytest.mark.parametrize("seed", SEEDS)
def test_hooks_are_called_for_each_final_failure_whatever_dies(seed: int) -> None:
    found = simulate(hooked_scenario_of(seed))

    assert found.violation is None


def hunted() -> str:
    """Return the first rule that does not hold."""
    for seed in range(1, 60):
        violation = simulate(hooked_scenario_of(seed)).violation
        if violation is not None:
            return violation.rule
    return ""


def test_an_end_that_names_nobody_to_call_hooks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "owes_hooks", lambda job: False)

    assert hunted() == RULE


def test_a_call_that_is_due_and_never_made_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents.DependentsQueue, "told_next", ())

    assert hunted() == RULE


def test_two_calls_for_one_failure_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(failed: Any, *, now: float) -> Any:
        job = final_failure.hook_job(failed, now=now)
        return placement.replace(job, id=f"{job.id}-{failed.attempt}")

    monkeypatch.setattr(placement, "hook_job", renamed)

    assert hunted() == RULE
