"""The register of calculators: free, asked, at work, or unavailable."""

from __future__ import annotations

import pytest

from shunter.model.report import Held
from shunter.wire.udp.calculators import (
    Calculators,
    Done,
    Effect,
    Forgotten,
    Joined,
    Left,
    NotAsked,
    NotTaken,
)

K1, K2 = ("127.0.0.1", 9001), ("127.0.0.1", 9002)
JOB, OTHER = Held("j-1", 1), Held("j-2", 1)
TYPES = ("default",)


def register() -> Calculators:
    return Calculators(heartbeat_timeout=10.0, default_handlers=TYPES)


def beat(
    it: Calculators, *, ready: bool = True, now: float = 0.0, request: bool = False
) -> list[Effect]:
    return it.heartbeat(K1, is_ready=ready, handlers=None, now=now, is_request=request)


def at_work() -> Calculators:
    it = register()
    beat(it)
    assert it.offered(K1, JOB, 5)
    assert it.confirmed(K1, JOB, now=1.0)
    return it


def test_a_ready_calculator_joins_once() -> None:
    it = register()

    assert beat(it) == [Joined(K1, TYPES)]
    assert beat(it) == []


def test_a_busy_stranger_is_known_and_not_free() -> None:
    it = register()

    assert beat(it, ready=False) == [Left(K1)]
    assert not it.is_free(K1)
    assert beat(it, ready=True) == [Joined(K1, TYPES)]


def test_a_calculator_says_what_it_does_and_may_change_its_mind() -> None:
    it = register()

    it.heartbeat(K1, is_ready=True, handlers=("sum",), now=0.0)
    effects = it.heartbeat(K1, is_ready=True, handlers=("mean",), now=1.0)

    assert effects == [Joined(K1, ("mean",))]


def test_a_task_is_offered_confirmed_and_done() -> None:
    it = at_work()

    assert it.completed(K1, 5, now=2.0) == [Done(K1, JOB), Joined(K1, TYPES)]
    assert it.is_free(K1)


def test_a_completion_may_come_before_the_confirmation() -> None:
    it = register()
    beat(it)
    it.offered(K1, JOB, 5)

    assert it.completed(K1, 5, now=1.0) == [Done(K1, JOB), Joined(K1, TYPES)]
    assert not it.confirmed(K1, JOB, now=1.1)


def test_only_a_free_calculator_is_offered_a_task() -> None:
    it = at_work()

    assert not it.offered(K1, OTHER, 6)
    assert not it.offered(K2, OTHER, 6)


def test_one_that_did_not_confirm_is_unavailable_until_its_next_heartbeat() -> None:
    it = register()
    beat(it)
    it.offered(K1, JOB, 5)

    assert it.unconfirmed(K1, JOB) == [NotTaken(K1, JOB), Left(K1)]
    assert it.unconfirmed(K1, JOB) == []
    assert beat(it, now=1.0) == [Joined(K1, TYPES)]


def test_a_heartbeat_that_crossed_the_offer_changes_nothing() -> None:
    it = register()
    beat(it)
    it.offered(K1, JOB, 5)

    assert beat(it, now=0.1) == []
    assert it.confirmed(K1, JOB, now=0.2)


def test_a_ready_that_wants_an_answer_gives_the_task_back() -> None:
    effects = beat(at_work(), now=2.0, request=True)

    assert effects == [Forgotten(K1, JOB), Joined(K1, TYPES)]


@pytest.mark.parametrize(("heard_at", "is_request"), [(1.05, True), (1.05, False), (3.0, False)])
def test_a_ready_that_may_have_been_overtaken_is_believed_after_a_while(
    heard_at: float, is_request: bool
) -> None:
    it = at_work()

    assert beat(it, now=heard_at, request=is_request) == []
    assert beat(it, now=heard_at + 1.0) == []
    assert it.tick(now=heard_at + 1.4) == []
    assert it.tick(now=heard_at + 1.6) == [Forgotten(K1, JOB), Joined(K1, TYPES)]


def test_a_ready_that_was_overtaken_is_not_believed_where_busy_follows() -> None:
    it = at_work()

    beat(it, now=1.05)
    beat(it, ready=False, now=2.0)

    assert it.tick(now=9.0) == []
    assert it.completed(K1, 5, now=9.0) == [Done(K1, JOB), Joined(K1, TYPES)]


def test_busy_after_a_confirmation_is_as_it_should_be() -> None:
    it = at_work()

    assert beat(it, ready=False, now=2.0) == []
    assert it.task_of(K1) is not None


def test_a_completion_of_something_else_is_not_asked_for() -> None:
    it = at_work()

    assert it.completed(K1, 6, now=2.0) == [NotAsked(K1, 6)]
    assert it.completed(K2, 5, now=2.0) == [NotAsked(K2, 5)]
    assert it.task_of(K1) is not None


def test_whose_task_was_taken_away_gets_nothing_until_it_has_spoken() -> None:
    it = at_work()
    it.taken_away(K1, JOB)

    assert not it.is_free(K1)
    assert beat(it, ready=False, now=3.0) == []
    assert it.completed(K1, 5, now=4.0) == [NotAsked(K1, 5), Joined(K1, TYPES)]


def test_the_silent_are_dropped_but_not_those_at_work() -> None:
    it = at_work()
    it.heartbeat(K2, is_ready=True, handlers=None, now=0.0)

    assert it.tick(now=9.9) == []
    assert it.tick(now=10.0) == [Left(K2)]
    assert it.tick(now=1000.0) == []
    assert it.completed(K1, 5, now=1001.0) == [Done(K1, JOB), Joined(K1, TYPES)]


def test_one_that_was_busy_meanwhile_is_taken_to_be_at_work() -> None:
    """Its confirmations may all be lost. If it is busy with something else, it will be ready."""
    it = register()
    beat(it)
    it.offered(K1, JOB, 5)
    beat(it, ready=False, now=1.0)

    assert it.unconfirmed(K1, JOB) == []
    assert beat(it, now=7.0, request=True) == [Forgotten(K1, JOB), Joined(K1, TYPES)]


def test_one_that_refuses_a_task_does_not_have_it() -> None:
    it = register()
    beat(it)
    it.offered(K1, JOB, 5)
    beat(it, ready=False, now=1.0)

    assert it.unconfirmed(K1, JOB, is_refused=True) == [NotTaken(K1, JOB, True), Left(K1)]


def test_one_whose_completion_is_being_stored_says_busy_because_of_that() -> None:
    it = at_work()
    it.completed(K1, 5, now=2.0)

    assert beat(it, ready=False, now=2.1) == []
    assert it.is_free(K1)

    it.completion_confirmed(K1)
    assert beat(it, ready=False, now=2.2) == [Left(K1)]


def test_no_task_is_sent_before_the_last_completion_is_stored() -> None:
    it = at_work()
    it.completed(K1, 5, now=2.0)

    assert not it.offered(K1, OTHER, 6)

    it.completion_confirmed(K1)
    assert beat(it, ready=True, now=2.5) == [Joined(K1, TYPES)]
    assert it.offered(K1, OTHER, 6)
