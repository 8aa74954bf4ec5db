"""Requests that are sent again until they are confirmed or given up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.udp.pace import (
    FIRST_GAP,
    MAX_RESENDS_AT_ONCE,
    RESENDS_PER_ANSWER,
    RESENDS_PER_SECOND,
    SHORTEST_GAP,
)
from shunter.wire.udp.transmissions import (
    GAPS_TO_GIVE_UP,
    GROWTH,
    JITTER,
    LONGEST_GAP,
    RESENT_SECONDS,
    GaveUp,
    Outgoing,
    Resend,
)

PEER = ("127.0.0.1", 4000)
OTHER = ("127.0.0.1", 4001)


def outgoing(jitter: float = 0.0) -> Outgoing[str]:
    return Outgoing(jitter=lambda: jitter)


def test_a_request_is_sent_again_after_ever_longer_gaps() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=10.0)

    assert sent.tick(now=10.199) == []
    assert sent.tick(now=10.2) == [Resend(PEER, 1, b"packet")]
    assert sent.tick(now=10.499) == []
    assert sent.tick(now=10.501) == [Resend(PEER, 1, b"packet")]
    assert sent.tick(now=10.95) == []
    assert sent.tick(now=10.96) == [Resend(PEER, 1, b"packet")]


def test_to_a_peer_that_answers_at_once_a_request_is_sent_again_soon() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"first", "", now=0.0)
    sent.confirmed(PEER, 1, now=0.002)

    sent.begin(PEER, 2, b"second", "", now=1.0)
    sent.begin(OTHER, 3, b"third", "", now=1.0)

    assert sent.tick(now=1.0 + SHORTEST_GAP) == [Resend(PEER, 2, b"second")]


def test_a_confirmed_request_is_not_sent_again() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0)
    sent.tick(now=0.5)

    confirmed = sent.confirmed(PEER, 1, now=0.6)

    assert confirmed is not None
    assert (confirmed.about, confirmed.began_at, confirmed.sends) == ("task 5", 0.0, 2)
    assert sent.tick(now=1000.0) == []
    assert (len(sent), sent.wakes_at) == (0, None)


@pytest.mark.parametrize(
    ("peer", "transmission_id"), [(OTHER, 1), (PEER, 2), (PEER, "1"), (("::1", 4000), 1)]
)
def test_nobody_waits_for_the_confirmation_of_something_else(
    peer: tuple[str, int], transmission_id: int | str
) -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0)

    assert sent.confirmed(peer, transmission_id, now=0.6) is None
    assert len(sent) == 1


def test_a_second_confirmation_is_one_that_nobody_waits_for() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0)

    assert sent.confirmed(PEER, 1, now=0.6) is not None
    assert sent.confirmed(PEER, 1, now=0.6) is None


def test_a_request_is_given_up_when_its_time_is_over_and_not_before() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0, give_up_after=2.0)

    effects = [(n / 10, effect) for n in range(40) for effect in sent.tick(now=n / 10)]

    *resends, last = effects
    assert {effect for _, effect in resends} == {Resend(PEER, 1, b"packet")}
    assert [moment for moment, _ in resends] == sorted({moment for moment, _ in resends})
    assert len(resends) >= 7
    assert last == (2.0, GaveUp(PEER, 1, "task 5"))
    assert sent.confirmed(PEER, 1, now=0.6) is None


def test_what_is_forgotten_is_neither_sent_again_nor_given_up() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0)

    sent.forget(PEER, 1)
    sent.forget(PEER, 1)

    assert sent.tick(now=1000.0) == []


def test_an_id_can_be_used_again_once_it_is_over() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"first", "first", now=0.0)
    sent.confirmed(PEER, 1, now=0.1)

    sent.begin(PEER, 1, b"second", "second", now=0.1)

    assert sent.tick(now=0.39) == []
    assert sent.tick(now=0.41) == [Resend(PEER, 1, b"second")]


def test_after_a_pause_a_request_is_sent_once_and_not_for_each_missed_gap() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0)

    assert sent.tick(now=20.0) == [Resend(PEER, 1, b"packet")]
    assert sent.tick(now=20.1) == []


def test_so_many_effects_are_returned_at_a_time_and_the_rest_stays_due() -> None:
    sent = outgoing()
    for number in range(25):
        sent.begin(PEER, number, b"packet", "", now=0.0)

    assert [len(sent.tick(now=0.25, most=10)) for _ in range(4)] == [10, 10, 5, 0]


def test_a_transmission_can_t_outlast_what_peers_remember() -> None:
    with pytest.raises(AssertionError, match="not remembered"):
        outgoing().begin(PEER, 1, b"", "", now=0.0, give_up_after=RESENT_SECONDS + 1)


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=40, max_size=40))
def test_gaps_grow_up_to_a_limit_and_are_spread(jitters: list[float]) -> None:
    drawn = iter(jitters * 10)
    sent: Outgoing[None] = Outgoing(jitter=lambda: next(drawn))
    sent.begin(PEER, 1, b"packet", None, now=0.0)

    moments, effects = [0.0], []
    while (now := sent.wakes_at) is not None:
        if effects := sent.tick(now=now):
            moments.append(now)

    assert effects == [GaveUp(PEER, 1, None)]
    assert moments[-1] == RESENT_SECONDS
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    longest = min(RESENT_SECONDS / GAPS_TO_GIVE_UP, LONGEST_GAP)
    for number, gap in enumerate(gaps[:-1]):
        expected = min(FIRST_GAP * GROWTH**number, longest)
        assert expected - 1e-9 <= gap <= expected * (1 + JITTER) + 1e-9


def test_requests_that_began_together_get_out_of_step() -> None:
    drawn = iter([0.0, 0.5, 0.999, 0.0, 0.0, 0.0])
    sent: Outgoing[None] = Outgoing(jitter=lambda: next(drawn))
    for number in range(3):
        sent.begin(PEER, number, b"%d" % number, None, now=0.0)

    assert sent.tick(now=0.2) == [Resend(PEER, 0, b"0")]
    assert sent.tick(now=0.23) == [Resend(PEER, 1, b"1")]
    assert sent.tick(now=0.25) == [Resend(PEER, 2, b"2")]


def test_a_request_may_be_given_up_before_it_is_ever_sent_again() -> None:
    sent = outgoing()
    sent.begin(PEER, 1, b"packet", "task 5", now=0.0, give_up_after=SHORTEST_GAP)

    assert sent.wakes_at == SHORTEST_GAP
    assert sent.tick(now=SHORTEST_GAP) == [GaveUp(PEER, 1, "task 5")]


def test_thousands_under_way_cost_nothing_until_they_are_due() -> None:
    sent = outgoing()
    for number in range(10_000):
        sent.begin(PEER, number, b"packet", "", now=number / 1e6)

    assert lines_run_by(lambda: sent.tick(now=0.15)) < 100  # to look at each would take thousands
    assert len(sent.tick(now=0.200_011)) == 11


def lines_run_by(call: Callable[[], object]) -> int:
    """Count the lines of Python that a call runs: its cost on a machine of any speed."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def test_a_peer_that_was_sent_enough_is_sent_more_as_answers_come() -> None:
    sent = outgoing()
    for number in range(1000):
        sent.begin(PEER, number, b"packet", "", now=0.0)
    resent = len(sent.tick(now=0.2))
    assert resent == MAX_RESENDS_AT_ONCE
    assert sent.tick(now=0.2) == []

    for number in range(10):
        sent.confirmed(PEER, number, now=0.2)

    assert len(sent.tick(now=0.2)) == 10 * RESENDS_PER_ANSWER
    assert len(sent.tick(now=1.2)) == pytest.approx(RESENDS_PER_SECOND, abs=2)


def test_what_waits_for_its_turn_is_given_up_in_time() -> None:
    sent = outgoing()
    for number in range(1000):
        sent.begin(PEER, number, b"packet", "", now=0.0, give_up_after=5.0)

    moment = 0.0
    while moment < 4.9:
        assert not any(isinstance(effect, GaveUp) for effect in sent.tick(now=moment))
        moment += 0.1

    assert len([e for e in sent.tick(now=5.0, most=5000) if isinstance(e, GaveUp)]) == 1000
    assert (len(sent), sent.tick(now=9.0)) == (0, [])


def test_one_busy_peer_takes_nothing_from_another() -> None:
    sent = outgoing()
    for number in range(1000):
        sent.begin(PEER, number, b"packet", "", now=0.0)
    sent.begin(OTHER, 1, b"other", "", now=0.0)

    assert Resend(OTHER, 1, b"other") in sent.tick(now=0.2, most=5000)


def test_of_so_many_peers_only_the_last_are_known_and_none_is_forgotten_to_be_asked() -> None:
    sent: Outgoing[int] = Outgoing(jitter=lambda: 0.0, max_peers=2)
    for port in range(5):
        sent.begin(("127.0.0.1", port), 1, b"packet", port, now=0.0)

    assert len(sent.tick(now=0.2)) == 5
    assert len(sent._lines) == 2
