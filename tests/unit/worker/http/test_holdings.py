"""What a dispatcher is told depends on what is here, and on nothing else."""

from __future__ import annotations

import pytest

from shunter.model.report import Held
from shunter.worker.http.holdings import (
    REMEMBERED,
    UNCONFIRMED_PER_SLOT,
    Holdings,
    Reply,
    RunOffer,
)


def offer(job_id: str = "j", attempt: int = 2, **changes: str) -> RunOffer:
    fields = {"type": "add", "worker_id": "w", **changes}
    return RunOffer(job_id=job_id, attempt=attempt, **fields)


def holdings(max_jobs: int = 2) -> Holdings:
    made = Holdings(("add", "echo"), max_jobs)
    made.worker_id = "w"
    return made


RUN = Held("j", 2)


def started() -> Holdings:
    held = holdings()
    assert held.offered(offer()) is Reply.START
    return held


def ended() -> Holdings:
    held = started()
    assert held.ended(RUN) == offer()
    return held


def confirmed() -> Holdings:
    held = ended()
    held.confirmed(RUN)
    return held


def cleared() -> Holdings:
    held = started()
    assert held.clear() == [RUN]
    return held


STAGES = {"started": started, "ended": ended, "confirmed": confirmed, "cleared": cleared}


@pytest.mark.parametrize("stage", STAGES)
def test_one_attempt_is_started_once_whatever_became_of_it(stage: str) -> None:
    held = STAGES[stage]()
    under_way = held.under_way

    assert held.offered(offer()) is Reply.KNOWN
    assert held.under_way == under_way


@pytest.mark.parametrize("stage", STAGES)
def test_an_earlier_attempt_is_outdated_whatever_became_of_the_later(stage: str) -> None:
    assert STAGES[stage]().offered(offer(attempt=1)) is Reply.OUTDATED


@pytest.mark.parametrize(
    ("stage", "reply"),
    [
        ("started", Reply.SUPERSEDES),
        ("ended", Reply.START),
        ("confirmed", Reply.START),
        ("cleared", Reply.START),
    ],
)
def test_a_later_attempt_starts_once_the_earlier_is_gone(stage: str, reply: Reply) -> None:
    assert STAGES[stage]().offered(offer(attempt=3)) is reply


def test_a_run_that_was_superseded_is_not_reported() -> None:
    held = started()
    assert held.offered(offer(attempt=3)) is Reply.SUPERSEDES
    assert held.run_of("j") == RUN

    assert held.ended(RUN) is None

    assert held.offered(offer(attempt=3)) is Reply.START
    assert held.ended(Held("j", 3)) == offer(attempt=3)


def test_there_are_never_more_than_max_jobs() -> None:
    held = holdings(max_jobs=2)
    assert held.offered(offer("a")) is Reply.START
    assert held.offered(offer("b")) is Reply.START

    assert held.offered(offer("c")) is Reply.FULL
    assert held.offered(offer("a")) is Reply.KNOWN

    held.ended(Held("a", 2))
    assert held.offered(offer("c")) is Reply.START


def test_reports_that_nobody_takes_end_in_a_refusal_of_more() -> None:
    held = holdings(max_jobs=1)
    for number in range(UNCONFIRMED_PER_SLOT):
        assert held.offered(offer(f"j{number}")) is Reply.START
        held.ended(Held(f"j{number}", 2))

    assert held.offered(offer("more")) is Reply.FULL

    held.confirmed(Held("j0", 2))
    assert held.offered(offer("more")) is Reply.START


def test_a_closed_worker_still_knows_what_it_has() -> None:
    held = started()
    held.closed = "leaving"

    assert held.offered(offer("another")) is Reply.CLOSED
    assert held.offered(offer()) is Reply.KNOWN


def test_what_is_not_for_this_worker_is_refused() -> None:
    held = holdings()

    assert held.offered(offer(type="paint")) is Reply.UNKNOWN_TYPE
    assert held.offered(offer(worker_id="another")) is Reply.MISDIRECTED

    held.worker_id = None
    assert held.offered(offer(worker_id="another")) is Reply.START


@pytest.mark.parametrize(
    ("stage", "is_here", "can_stop"),
    [
        ("started", True, True),
        ("ended", True, False),
        ("confirmed", False, False),
        ("cleared", False, False),
    ],
)
def test_a_run_is_here_until_it_is_confirmed(stage: str, is_here: bool, can_stop: bool) -> None:
    held = STAGES[stage]()

    for attempt in (2, None):
        assert held.has("j", attempt) is is_here
        assert held.run_of("j", attempt) == (RUN if can_stop else None)
    assert not held.has("j", 1)
    assert held.run_of("j", 1) is None


def test_the_end_of_what_is_not_under_way_concerns_nobody() -> None:
    assert started().ended(Held("j", 1)) is None
    assert ended().ended(RUN) is None
    assert cleared().ended(RUN) is None


def test_only_so_many_ended_jobs_are_remembered() -> None:
    held = holdings()
    for number in range(REMEMBERED + 1):
        held.offered(offer(f"j{number}"))
        held.ended(Held(f"j{number}", 2))
        held.confirmed(Held(f"j{number}", 2))

    assert held.offered(offer("j1")) is Reply.KNOWN
    assert held.offered(offer("j0")) is Reply.START
