"""Between two processes: what is lost comes again, what comes twice is taken once."""

from __future__ import annotations

from collections import deque
from itertools import chain, cycle, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.runners.engines import links
from shunter.flow.runners.engines.links import RESEND_SECONDS, Link, LinkEnd, LinkEnvelope
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.inbox import Inbox

CODEC = EventCodec({})
LIMIT = 10


class Wire:
    """A link and its end, and what is on the way between them."""

    def __init__(self, limit=LIMIT):
        self.inbox = Inbox(["s"], limit=limit)
        self.end = LinkEnd(self.inbox, CODEC.decode)
        self.there = deque()
        self.link = Link("s", limit, CODEC.encode, lambda *sent: self.there.append(sent))
        self.now = 0.0

    def arrive(self):
        gap = self.end.take(*self.there.popleft())
        if gap is not None:
            self.link.receive(gap, now=self.now)

    def settle(self):
        while self.there:
            self.arrive()
        self.tell()

    def tell(self):
        news = self.end.news_for("s")
        if news is not None:
            self.link.receive(news, now=self.now)

    def work(self):
        """Have the receiver work on all it has."""
        found = []
        while (taken := self.inbox.take(100)) is not None:
            found += [taken] if isinstance(taken, Instruction) else taken
            if isinstance(taken, list):
                self.inbox.acknowledge(len(taken))
        return found


def test_no_more_is_sent_than_there_is_room_for():
    it = Wire()
    assert it.link.enqueue("s", 1, range(15)) == 10
    assert it.link.enqueue("s", 11, [10]) == 0
    assert it.link.instruct("s", 11, Instruction(FLUSH)) == 0
    it.settle()
    assert it.link.room("s") == 0

    assert it.work() == list(range(10))
    it.tell()

    assert it.link.room("s") == 10
    assert it.link.is_settled


def test_what_went_before_is_counted_and_not_sent_again():
    it = Wire()
    it.link.enqueue("s", 1, [1, 2])

    assert it.link.enqueue("s", 1, [1, 2, 3]) == 3
    it.settle()
    assert it.work() == [1, 2, 3]


def test_a_gap_is_seen_and_filled():
    it = Wire()
    it.link.enqueue("s", 1, [1])
    it.link.enqueue("s", 2, [2])
    it.there.popleft()

    it.settle()

    assert it.work() == [1, 2]
    assert it.link.resent == 2


def test_a_gap_is_filled_once_though_all_that_came_behind_it_tells_of_it():
    it = Wire(limit=100)
    for number in range(100):
        it.link.enqueue("s", number + 1, [number])
    it.there.popleft()
    it.settle()

    assert it.link.resent == 100
    assert it.work() == list(range(100))


def test_the_last_one_comes_again_after_a_while_if_it_was_lost():
    it = Wire()
    it.link.tick(now=0.0)
    it.link.enqueue("s", 1, [1])
    it.there.clear()
    it.link.tick(now=RESEND_SECONDS - 0.1)
    assert not it.there

    it.link.tick(now=RESEND_SECONDS)

    it.settle()
    assert it.work() == [1]
    assert it.link.is_settled


@pytest.mark.parametrize(
    ("envelope", "body", "reason"),
    [
        (LinkEnvelope("x", 0, 1, 1), b"\x91\x01", "'x', which does not send here"),
        (LinkEnvelope("s", 0, 1, 2), b"\x91\x01", "announced 2 events and sent 1"),
        (LinkEnvelope("s", 0, 1, 1), b"\xc1", "don't decode"),
        (LinkEnvelope("s", 0, 1, 1, "os:system"), b"\x91\x01", "type 'os:system', which this flow"),
        (
            LinkEnvelope("s", 0, 1, 1, "", Instruction("dance")),
            b"",
            "'dance', which nobody here knows",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_of_it_taken(envelope, body, reason):
    it = Wire()

    with pytest.raises(FlowError, match=reason):
        it.end.take(envelope, body)

    assert it.inbox.mark("s") == 0
    assert it.inbox.occupied == 0


ACTIONS = ["offer", "arrive", "lose", "double", "work", "wait"]
FAIR = ["offer", "arrive", "arrive", "work", "wait"]


@given(st.lists(st.sampled_from(ACTIONS), max_size=60), st.sets(st.integers(1, 30)))
def test_over_a_wire_that_loses_and_doubles_everything_arrives_once_and_in_order(actions, flushes):
    it = Wire(limit=5)
    items = [Instruction(FLUSH, number=n) if n in flushes else n for n in range(1, 31)]
    found, at = [], 0
    for action in chain(actions, cycle(FAIR)):
        match action:
            case "offer" if at < len(items) and isinstance(items[at], Instruction):
                at += it.link.instruct("s", at + 1, items[at])
            case "offer":
                upcoming = items[at : at + 3]
                run = list(takewhile(lambda item: not isinstance(item, Instruction), upcoming))
                at += it.link.enqueue("s", at + 1, run)
            case "arrive" if it.there:
                it.arrive()
                it.tell()
            case "lose" if it.there:
                it.there.popleft()
            case "double" if it.there:
                it.there.append(it.there[0])
            case "work":
                found += it.work()
                it.tell()
            case "wait":
                it.now += 31.0
                it.link.tick(now=it.now)
        if len(found) == len(items):
            break
    assert found == items


def test_a_batch_with_too_many_bytes_goes_in_several_envelopes(monkeypatch):
    monkeypatch.setattr(links, "ENVELOPE_BYTES", 100)
    it = Wire()
    events = ["x" * 30] * 8

    assert it.link.enqueue("s", 1, events) == 2
    assert it.link.enqueue("s", 3, events[2:]) == 3
    it.settle()

    assert it.work() == events[:5]


def test_an_event_that_fits_no_envelope_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(links, "ENVELOPE_BYTES", 100)

    with pytest.raises(FlowError, match="'s' sends an event of 203 bytes; at most 100"):
        Wire().link.enqueue("s", 1, ["x" * 200])
