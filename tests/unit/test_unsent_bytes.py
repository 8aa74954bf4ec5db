"""What ZeroMQ has not sent yet is bounded by bytes, and no peer waits for another that is deaf."""

from __future__ import annotations

from typing import Any

from shunter.net.unsent_bytes import (
    TRACKED_BYTES,
    UNSENT_BYTES_PER_PEER,
    UNSENT_BYTES_TOGETHER,
    UNSENT_WHOLE_BYTES,
    WHOLE_BYTES,
    UnsentBytes,
)


class Tracker:
    """Stands for ZeroMQ's own."""

    done = False


def test_a_peer_that_does_not_read_gets_no_more_than_its_share() -> None:
    unsent, tracker = UnsentBytes(), Tracker()
    sent: Any = tracker
    unsent.add(sent, b"deaf", UNSENT_BYTES_PER_PEER)

    assert not unsent.has_room(b"deaf", 1)
    assert unsent.has_room(b"other", 1)

    tracker.done = True
    assert unsent.has_room(b"deaf", UNSENT_BYTES_PER_PEER)


def test_one_message_is_sent_whatever_its_size() -> None:
    assert UnsentBytes().has_room(b"peer", 10 * UNSENT_WHOLE_BYTES)


def test_parts_are_not_held_back_by_others_that_do_not_read() -> None:
    unsent, tracker = UnsentBytes(), Tracker()
    sent: Any = tracker
    for number in range(UNSENT_WHOLE_BYTES // UNSENT_BYTES_PER_PEER):
        unsent.add(sent, b"deaf-%d" % number, UNSENT_BYTES_PER_PEER)

    assert not unsent.has_room(b"other", WHOLE_BYTES + 1)
    assert unsent.has_room(b"other", WHOLE_BYTES)


def test_small_frames_are_counted_together() -> None:
    unsent = UnsentBytes()
    size, sent = 100, 0
    while not (due := unsent.due(b"deaf", size)):
        sent += size

    assert due >= TRACKED_BYTES
    assert sent < due, "what ZeroMQ needs for each is counted too"
    assert unsent.due(b"deaf", size) == 0
    assert unsent.due(b"deaf", TRACKED_BYTES) >= TRACKED_BYTES


def test_when_all_together_read_nothing_only_newcomers_get_something() -> None:
    unsent, tracker = UnsentBytes(), Tracker()
    sent: Any = tracker
    for number in range(UNSENT_BYTES_TOGETHER // WHOLE_BYTES):
        unsent.add(sent, b"deaf-%d" % number, WHOLE_BYTES)

    assert not unsent.has_room(b"deaf-1", 1)
    assert unsent.has_room(b"other", 1)
