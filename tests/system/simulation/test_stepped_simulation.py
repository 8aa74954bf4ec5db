"""Steps, sleeps and signals under seeded faults: what is told as kept never runs again."""

from __future__ import annotations

import pytest

from long_runs import IS_LONG
from shunter.model.job import Status
from shunter.model.lifecycle import Event
from shunter.store.memory_journals import MemoryJournals
from shunter.testing.simulation.generator import stepped_scenario_of
from shunter.testing.simulation.simulator import simulate
from shunter.worker.run_journal import RunJournal

SEEDS = range(1, 401 if IS_LONG else 7)


def first_violation(rule: str, seeds: range = range(1, 60)) -> int | None:
    """Return the first seed in which a rule does not hold."""
    for seed in seeds:
        found = simulate(stepped_scenario_of(seed))
        if found.violation is not None:
            assert found.violation.rule == rule, found.violation
            return seed
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_steps_never_run_again_and_parked_jobs_end(seed: int) -> None:
    found = simulate(stepped_scenario_of(seed))

    assert found.violation is None
    assert found.events[Status.IN_PROGRESS, Event.PARKED] >= 1
    assert found.events[Status.WAITING, Event.WOKEN] >= 1


# ---- bugs that must be found


def test_a_store_that_says_kept_and_keeps_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryJournals, "enter", lambda journals, entry, job: True)

    assert first_violation("a kept step never runs again") is not None


def test_a_run_that_forgets_what_earlier_ones_kept_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RunJournal, "_kept", lambda *_, **__: None)

    assert first_violation("a kept step never runs again") is not None
