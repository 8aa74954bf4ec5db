"""How a run is stopped that shares its child with others, and when it is not its turn."""

from __future__ import annotations

import pytest

from shunter.model.job import ErrorKind
from shunter.worker.pool.escalation import Escalation, Push, StopStep, is_held_up, step_of


@pytest.mark.parametrize(
    ("push", "blocker", "step"),
    [
        (Push.REQUEST, None, StopStep.ASK),
        (Push.SIGTERM, None, StopStep.TELL),
        (Push.SIGKILL, None, StopStep.KILL),
        (Push.REQUEST, 7, StopStep.WAIT),
        (Push.SIGTERM, 7, StopStep.INTERRUPT),
        (Push.SIGKILL, 7, StopStep.KILL),
    ],
)
def test_words_go_to_the_loop_and_a_signal_to_the_one_that_blocks_it(
    push: Push, blocker: int | None, step: StopStep
) -> None:
    assert step_of(push, 7, blocker) is step


def test_nobody_is_pushed_for_what_another_does() -> None:
    assert is_held_up(7, 8)
    assert not is_held_up(7, 7)
    assert not is_held_up(7, None)


def test_a_loop_that_hears_nothing_is_looked_into_first_but_not_for_ever() -> None:
    assert is_held_up(7, None, unheard_for=4.9, patience=5.0)
    assert not is_held_up(7, None, unheard_for=5.0, patience=5.0)


def test_a_run_that_blocked_and_completes_after_all_has_completed() -> None:
    assert Escalation(ErrorKind.EXCEPTION, "it blocked", grace=1.0).accepts_result()
    assert not Escalation(ErrorKind.TIMEOUT, "too long", grace=1.0).accepts_result()
