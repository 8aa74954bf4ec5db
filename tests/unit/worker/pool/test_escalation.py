"""How a run is stopped, step by step."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.job import ErrorKind, Failure
from shunter.worker.pool.escalation import Escalation, Push


def cancel(grace: float = 1.0) -> Escalation:
    return Escalation(ErrorKind.CANCELLED, "cancelled on request", grace=grace)


def test_the_request_comes_at_once_then_sigterm_then_sigkill_a_grace_apart() -> None:
    escalation = cancel()

    assert escalation.due(now=10.0) is Push.REQUEST
    assert escalation.due(now=10.9) is Push.REQUEST
    assert escalation.due(now=11.0) is Push.SIGTERM
    assert escalation.due(now=11.9) is Push.SIGTERM
    assert escalation.due(now=12.0) is Push.SIGKILL
    assert escalation.due(now=99.0) is Push.SIGKILL


def test_a_late_look_never_skips_a_step() -> None:
    escalation = cancel()

    assert [escalation.due(now=now) for now in (0.0, 50.0, 50.1, 51.0)] == [
        Push.REQUEST,
        Push.SIGTERM,
        Push.SIGTERM,
        Push.SIGKILL,
    ]


@given(
    st.lists(st.floats(min_value=0, max_value=30), min_size=1),
    st.floats(min_value=0.01, max_value=5),
)
def test_pushes_only_grow_stronger_and_never_within_the_grace(
    times: list[float], grace: float
) -> None:
    escalation = cancel(grace)

    made = [(escalation.due(now=now), now) for now in sorted(times)]

    first_at = dict(reversed(made))
    assert list(dict.fromkeys(push for push, _ in made)) == list(Push)[: len(first_at)]
    starts = sorted(first_at.values())
    assert all(later - now >= grace for now, later in itertools.pairwise(starts))


def test_what_it_took_is_the_last_push() -> None:
    escalation = cancel()
    assert escalation.ended_by == ""

    for now, ended_by in [(0.0, "request"), (1.0, "SIGTERM"), (2.0, "SIGKILL")]:
        escalation.due(now=now)
        assert escalation.failure().ended_by == ended_by


def test_a_result_counts_after_a_cancel_but_not_after_a_timeout() -> None:
    assert cancel().accepts_result()
    assert not Escalation(ErrorKind.TIMEOUT, "too long", grace=1.0).accepts_result()


@pytest.mark.parametrize("kind", [ErrorKind.CANCELLED, ErrorKind.TIMEOUT])
def test_whatever_a_stopped_run_raised_it_ended_because_it_was_stopped(kind: ErrorKind) -> None:
    escalation = Escalation(kind, "the reason", grace=1.0)
    escalation.due(now=0.0)
    raised = Failure(ErrorKind.EXCEPTION, "ValueError: oh", "Traceback…")

    failure = escalation.failure(raised)

    assert failure == Failure(
        kind, "the reason; it ended with ValueError: oh", "Traceback…", "request"
    )


def test_a_refused_run_stays_refused_since_it_never_began() -> None:
    refused = Failure(ErrorKind.REFUSED, "no such handler")

    assert cancel().failure(refused) == refused
