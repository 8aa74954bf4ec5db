"""What came in is remembered: answered again, not done again, and forgotten in time."""

from __future__ import annotations

import tracemalloc

import pytest

from shunter.wire.udp.transmissions import (
    REMEMBERED_SECONDS,
    RESENT_SECONDS,
    WANDERING_SECONDS,
    Heard,
    Incoming,
)

PEER = ("127.0.0.1", 4000)
OTHER = ("127.0.0.1", 4001)
ENTRY = 1000


def test_a_packet_is_new_once_then_under_way_then_answered() -> None:
    incoming = Incoming()

    assert incoming.received(PEER, "k", now=0.0) is Heard.NEW
    assert incoming.received(PEER, "k", now=0.5) is Heard.UNDER_WAY
    incoming.answered(PEER, "k", b"answer", now=0.6)
    assert incoming.received(PEER, "k", now=1.3) == b"answer"
    assert incoming.received(PEER, "k", now=2.6) == b"answer"


def test_a_packet_that_wants_no_answer_is_known_too() -> None:
    incoming = Incoming()
    incoming.received(PEER, "k", now=0.0)

    incoming.answered(PEER, "k", b"", now=0.0)

    assert incoming.received(PEER, "k", now=0.1) == b""


@pytest.mark.parametrize(("peer", "key"), [(OTHER, (1, 5)), (PEER, (1, 6)), (PEER, ("1", 5))])
def test_what_another_sent_or_something_else_is_new(
    peer: tuple[str, int], key: tuple[int | str, int]
) -> None:
    incoming = Incoming()
    incoming.received(PEER, (1, 5), now=0.0)

    assert incoming.received(peer, key, now=0.0) is Heard.NEW


def test_it_is_remembered_for_longer_than_a_peer_of_ours_resends() -> None:
    assert REMEMBERED_SECONDS >= RESENT_SECONDS + WANDERING_SECONDS
    incoming = Incoming()
    incoming.received(PEER, "k", now=0.0)
    incoming.answered(PEER, "k", b"answer", now=0.0)

    assert incoming.received(PEER, "k", now=REMEMBERED_SECONDS - 0.1) == b"answer"


def test_it_is_remembered_for_as_long_as_somebody_keeps_resending() -> None:
    incoming = Incoming()
    incoming.received(PEER, "k", now=0.0)
    incoming.answered(PEER, "k", b"answer", now=0.0)

    for number in range(1, 20):
        assert incoming.received(PEER, "k", now=number * (REMEMBERED_SECONDS - 1)) == b"answer"


@pytest.mark.parametrize("speaks", [PEER, OTHER])
def test_it_is_forgotten_afterwards_whoever_speaks(speaks: tuple[str, int]) -> None:
    incoming = Incoming()
    for number in range(30):
        incoming.received(PEER, number, now=0.0)

    for number in range(3):
        incoming.received(speaks, f"another {number}", now=REMEMBERED_SECONDS + 1)

    assert len(incoming) == 3


def test_all_is_forgotten_in_time_though_nobody_speaks() -> None:
    incoming = Incoming()
    for number in range(2500):
        incoming.received((str(number % 7), 1), number, now=0.0)

    counts = []
    for _ in range(4):
        incoming.tick(now=REMEMBERED_SECONDS)
        counts.append(len(incoming))

    assert counts == [1500, 500, 0, 0]
    assert incoming.size == 0


def test_a_packet_whose_work_came_to_nothing_is_new_again() -> None:
    incoming = Incoming()
    incoming.received(PEER, "k", now=0.0)
    incoming.received(PEER, "other", now=0.0)

    incoming.forget(PEER, "k")
    incoming.forget(PEER, "never heard")
    incoming.forget(OTHER, "k")

    assert incoming.received(PEER, "k", now=0.1) is Heard.NEW
    assert incoming.received(PEER, "other", now=0.1) is Heard.UNDER_WAY


def test_an_answer_is_remembered_though_its_packet_was_forgotten_meanwhile() -> None:
    incoming = Incoming()
    incoming.received(PEER, "k", now=0.0)
    incoming.forget(PEER, "k")
    assert (len(incoming), incoming.size) == (0, 0)

    incoming.answered(PEER, "k", b"answer", now=1.0)

    assert incoming.received(PEER, "k", now=1.1) == b"answer"


# ---- bounds


def test_a_loud_peer_forgets_its_own_oldest_and_nobody_else_s() -> None:
    incoming = Incoming(max_bytes_per_peer=20 * ENTRY, max_bytes=1000 * ENTRY)
    incoming.received(OTHER, "k", now=0.0)
    incoming.answered(OTHER, "k", b"answer", now=0.0)

    for number in range(10_000):
        incoming.received(PEER, number, now=1.0)

    assert incoming.size < 22 * ENTRY
    assert incoming.received(PEER, 9_999, now=1.0) is Heard.UNDER_WAY
    assert incoming.received(PEER, 0, now=1.0) is Heard.NEW
    assert incoming.received(OTHER, "k", now=1.0) == b"answer"


def test_among_many_peers_the_one_silent_longest_is_forgotten_first() -> None:
    incoming = Incoming(max_bytes=50 * ENTRY)
    incoming.received(PEER, "k", now=0.0)
    incoming.received(OTHER, "k", now=0.0)

    for number in range(10_000):
        incoming.received(("stranger", number), "k", now=1.0)
        assert incoming.received(PEER, "k", now=1.0) is Heard.UNDER_WAY

    assert incoming.size <= 50 * ENTRY
    assert incoming.received(OTHER, "k", now=1.0) is Heard.NEW


def test_what_comes_again_and_again_is_not_the_oldest() -> None:
    incoming = Incoming(max_bytes_per_peer=20 * ENTRY)
    incoming.received(PEER, "k", now=0.0)

    for number in range(1000):
        incoming.received(PEER, number, now=1.0)
        assert incoming.received(PEER, "k", now=1.0) is Heard.UNDER_WAY


def test_long_answers_count() -> None:
    incoming = Incoming(max_bytes_per_peer=20 * ENTRY)

    for number in range(1000):
        incoming.received(PEER, number, now=0.0)
        incoming.answered(PEER, number, b"x" * ENTRY, now=0.0)

    assert len(incoming) < 20
    assert incoming.size <= 20 * ENTRY


def test_an_answer_given_twice_counts_once() -> None:
    incoming = Incoming()
    incoming.answered(PEER, "k", b"x" * 100, now=0.0)
    size = incoming.size

    incoming.answered(PEER, "k", b"y" * 100, now=0.0)

    assert incoming.size == size
    incoming.forget(PEER, "k")
    assert incoming.size == 0


@pytest.mark.parametrize("peers", [1, 5000])
def test_the_size_is_about_what_it_really_takes(peers: int) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        incoming = Incoming()
        for number in range(5000):
            peer, key = (
                (f"10.0.0.{number % peers}", 4000 + number % peers),
                (10**9 + number, number),
            )
            incoming.received(peer, key, now=0.0)
            incoming.answered(
                peer, key, b'{"packet_type":2,"transmission_id":%d}' % number, now=0.0
            )
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 0.6 < (after - before) / incoming.size < 1.1


def test_a_packet_that_was_never_answered_may_be_done_again_after_a_while_and_not_sooner() -> None:
    incoming = Incoming()
    incoming.received("peer", "key", now=0.0)

    assert incoming.received("peer", "key", now=1.9) is Heard.UNDER_WAY
    assert incoming.received("peer", "key", now=2.0) is Heard.OVERDUE
    assert incoming.received("peer", "key", now=3.9) is Heard.UNDER_WAY
