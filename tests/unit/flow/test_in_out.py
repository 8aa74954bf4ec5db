"""How many inputs may be acknowledged for how many outputs delivered."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.flow.runtime.in_out import InOutBuffer, chained


def buffer(*batches):
    made = InOutBuffer()
    for batch in batches:
        made.record(*batch)
    return made


def test_one_to_one():
    it = buffer((5, 5))

    assert [it.delivered(n) for n in (0, 2, 1, 2)] == [0, 2, 1, 2]


def test_filtered_ones_are_acknowledged_with_what_is_delivered_before_them():
    it = buffer((6, 2, lambda: [0, 1, 1, 1, 2, 2]))

    assert [it.delivered(n) for n in (0, 1, 1)] == [1, 3, 2]


def test_a_split_input_waits_for_its_last_output():
    it = buffer((2, 5, lambda: [3, 5]))

    assert [it.delivered(1) for _ in range(5)] == [0, 0, 1, 0, 1]


def test_inputs_that_were_put_together_wait_for_their_one_output():
    it = buffer((4, 2, lambda: [1, 1, 2, 2]))

    assert [it.delivered(1), it.delivered(1)] == [2, 2]


def test_outputs_with_no_input_acknowledge_nothing():
    it = buffer((0, 2), (1, 1))

    assert [it.delivered(1) for _ in range(3)] == [0, 0, 1]


def test_inputs_with_no_output_wait_only_for_what_is_before_them():
    it = buffer((3, 0), (1, 1), (2, 0), (1, 1))

    assert [it.delivered(0), it.delivered(1), it.delivered(1)] == [3, 3, 1]


def test_all_or_nothing_where_nothing_is_said():
    it = buffer((3, 2))

    assert [it.delivered(1), it.delivered(1)] == [0, 3]


def test_what_was_never_made_can_not_be_delivered():
    with pytest.raises(ValueError, match="2 outputs"):
        buffer((1, 1)).delivered(3)


counts = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=5)


@given(counts, st.data())
def test_an_input_is_acknowledged_once_all_its_outputs_are_delivered_and_not_before(batches, data):
    """`batches` has for each input the number of its outputs."""
    it = InOutBuffer()
    for batch in batches:
        it.record(len(batch), sum(batch), lambda batch=batch: list(accumulate(batch)))
    needs = list(accumulate(count for batch in batches for count in batch))
    total = needs[-1] if needs else 0
    delivered = acknowledged = 0
    while delivered < total:
        acknowledged += it.delivered(0)
        now = data.draw(st.integers(1, total - delivered))
        delivered += now
        acknowledged += it.delivered(now)
        assert acknowledged <= bisect_right(needs, delivered)
    acknowledged += it.delivered(0)
    assert acknowledged == len(needs)


@given(st.lists(st.integers(0, 3), max_size=8), st.data())
def test_two_steps_in_a_row_need_what_one_step_of_both_would(first, data):
    middle = sum(first)
    second = data.draw(st.lists(st.integers(0, 3), min_size=middle, max_size=middle))
    needs = chained(lambda: list(accumulate(first)), lambda: list(accumulate(second)))
    ends = [0, *accumulate(second)]

    assert needs is not None
    assert needs() == [ends[at] for at in accumulate(first)]
    assert chained(None, None) is None
