"""Peers take turns, and nobody's questions take the room of all."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.fair_queue import FairQueue, QueueBounds

WIDE = QueueBounds(peer_count=100, peer_bytes=1000, count=1000, bytes=10_000)


def taken(queue: FairQueue[str]) -> list[str]:
    found = []
    while (next_one := queue.take()) is not None:
        found.append(next_one[1])
    return found


def test_a_peer_with_many_questions_waits_for_others_after_each() -> None:
    queue: FairQueue[str] = FairQueue(WIDE)
    for item in ("a1", "a2", "a3"):
        assert queue.put(b"a", item, 1) == []
    queue.put(b"b", "b1", 1)
    queue.put(b"c", "c1", 1)

    assert taken(queue) == ["a1", "b1", "c1", "a2", "a3"]
    assert len(queue) == 0


def test_who_has_had_a_turn_comes_after_newcomers() -> None:
    queue: FairQueue[str] = FairQueue(WIDE)
    queue.put(b"a", "a1", 1)
    queue.put(b"a", "a2", 1)
    assert queue.take() == (b"a", "a1")
    queue.put(b"b", "b1", 1)
    queue.put(b"a", "a3", 1)

    assert taken(queue) == ["a2", "b1", "a3"]


def test_a_peer_has_room_for_so_many_and_so_many_bytes() -> None:
    queue: FairQueue[str] = FairQueue(
        QueueBounds(peer_count=2, peer_bytes=10, count=100, bytes=1000)
    )
    assert queue.put(b"a", "a1", 8) == []
    assert queue.put(b"a", "a2", 3) == [(b"a", "a2")]
    assert queue.put(b"a", "a3", 2) == []
    assert queue.put(b"a", "a4", 0) == [(b"a", "a4")]
    assert queue.put(b"b", "b1", 8) == []


def test_a_newcomer_takes_the_place_of_the_last_of_the_largest() -> None:
    queue: FairQueue[str] = FairQueue(
        QueueBounds(peer_count=10, peer_bytes=100, count=4, bytes=100)
    )
    for item in ("a1", "a2", "a3"):
        queue.put(b"a", item, 1)
    queue.put(b"b", "b1", 1)

    assert queue.put(b"c", "c1", 1) == [(b"a", "a3")]
    assert queue.put(b"b", "b2", 1) == [(b"b", "b2")], "it has one in line already"
    assert taken(queue) == ["a1", "b1", "c1", "a2"]


def test_nobody_is_put_off_for_a_newcomer_who_has_but_one() -> None:
    queue: FairQueue[str] = FairQueue(
        QueueBounds(peer_count=10, peer_bytes=100, count=2, bytes=100)
    )
    queue.put(b"a", "a1", 1)
    queue.put(b"b", "b1", 1)

    assert queue.put(b"c", "c1", 1) == [(b"c", "c1")]


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", None]), st.integers(0, 12))))
def test_nothing_is_lost_or_taken_twice_and_each_peer_keeps_its_order(
    steps: list[tuple[bytes | None, int]],
) -> None:
    bounds = QueueBounds(peer_count=3, peer_bytes=20, count=6, bytes=40)
    queue: FairQueue[int] = FairQueue(bounds)
    waiting: dict[bytes, deque[tuple[int, int]]] = {b"a": deque(), b"b": deque(), b"c": deque()}
    for number, (peer, size) in enumerate(steps):
        if peer is None:
            if (found := queue.take()) is not None:
                assert waiting[found[0]].popleft()[0] == found[1]
        else:
            waiting[peer].append((number, size))
            for whose, item in queue.put(peer, number, size):
                assert waiting[whose].pop()[0] == item
        assert len(queue) == sum(map(len, waiting.values())) <= bounds.count
        assert all(len(line) <= bounds.peer_count for line in waiting.values())
        assert sum(size for line in waiting.values() for _, size in line) <= bounds.bytes
