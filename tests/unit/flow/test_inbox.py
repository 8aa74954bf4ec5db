"""Where events arrive: bounded, in order, and none of them twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph.instructions import CHECKPOINT, END_OF_STREAM, FLUSH, Instruction
from shunter.flow.runtime.inbox import Inbox

END = Instruction(END_OF_STREAM)
FLUSHED = Instruction(FLUSH, origin="s", number=1)


def drained(inbox, limit=100):
    found = []
    while (taken := inbox.take(limit)) is not None:
        found.append(taken)
        if isinstance(taken, list):
            inbox.acknowledge(len(taken))
    return found


def test_small_runs_are_worked_on_together_and_large_ones_in_parts():
    it = Inbox(["a"])
    it.enqueue("a", 1, [1, 2])
    it.enqueue("a", 3, [3, 4, 5])

    assert drained(it, limit=4) == [[1, 2, 3, 4], [5]]


def test_what_was_seen_is_counted_as_taken_and_not_kept():
    it = Inbox(["a"])
    assert it.enqueue("a", 1, [1, 2, 3]) == 3

    assert it.enqueue("a", 2, [2, 3, 4]) == 3
    assert it.enqueue("a", 1, [1]) == 1

    assert drained(it) == [[1, 2, 3, 4]]
    assert it.duplicates == 3


def test_numbers_may_be_left_out():
    it = Inbox(["a"])
    it.enqueue("a", 1, [1])
    it.enqueue("a", 7, [7])

    assert it.enqueue("a", 5, [5]) == 1
    assert drained(it) == [[1, 7]]


def test_a_full_inbox_takes_what_fits_until_events_are_acknowledged():
    it = Inbox(["a"], limit=3)
    assert it.enqueue("a", 1, [1, 2, 3, 4]) == 3
    assert it.instruct("a", 9, FLUSHED) == 0
    assert it.take(2) == [1, 2]
    assert it.enqueue("a", 4, [4]) == 0

    it.acknowledge(2)

    assert it.enqueue("a", 4, [4]) == 1
    assert it.occupied == 2


def test_a_sender_that_waits_leaves_room_to_the_others():
    it = Inbox(["a", "b"], limit=3)
    it.instruct("a", 1, FLUSHED)
    assert it.take(10) is None
    assert it.enqueue("a", 2, [1, 2, 3]) == 3
    assert it.take(10) is None

    assert it.enqueue("b", 1, [7, 8, 9]) == 3
    assert it.take(10) == [7, 8, 9]
    it.acknowledge(3)
    it.instruct("b", 4, FLUSHED)

    assert drained(it) == [FLUSHED, [1, 2, 3]]


def test_the_end_comes_once_all_have_come_to_it():
    it = Inbox(["a", "b"])
    it.instruct("a", 1, END)
    assert it.take(10) is None
    it.enqueue("b", 1, [1])
    it.instruct("b", 2, END)

    assert drained(it) == [[1], END]


def test_a_stranger_is_refused_and_told_who_was_expected():
    with pytest.raises(FlowError, match=r"'x'.*expected were 'a'"):
        Inbox(["a"]).enqueue("x", 1, [1])


def test_a_checkpoint_keeps_the_marks_of_what_is_before_it():
    it = Inbox(["a"])
    it.enqueue("a", 1, [1, 2])
    it.instruct("a", 3, Instruction(CHECKPOINT, number=1))
    it.enqueue("a", 4, [4, 5])
    assert it.take(10) == [1, 2]
    assert it.take(10) == Instruction(CHECKPOINT, number=1)
    again = Inbox(["a"])
    again.restore(it.snapshot())

    assert again.enqueue("a", 2, [2, "checkpoint", 4, 5]) == 4

    assert drained(again) == [[4, 5]]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), max_size=20), st.data())
def test_whatever_is_offered_each_number_is_kept_once_and_in_order(offers, data):
    it = Inbox(["a"], limit=7)
    kept, mark = [], 0
    for first, count in offers:
        taken = it.enqueue("a", first, range(first, first + count))
        assert taken <= count
        fresh = [n for n in range(first, first + taken) if n > mark]
        kept += fresh
        mark = max(mark, first + taken - 1) if fresh else mark
        if data.draw(st.booleans()):
            found = drained(it, limit=3)
            assert [n for run in found for n in run] == kept
            kept = []
    assert [n for run in drained(it) for n in run] == kept
