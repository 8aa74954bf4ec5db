"""Messages of a bounded size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.batches import BATCH_BYTES, batches

SIZES = st.lists(st.integers(0, 2 * BATCH_BYTES), max_size=50)


@given(SIZES, st.none() | st.integers(1, 10))
def test_nothing_is_lost_or_moved_and_only_a_single_item_may_be_too_large(
    sizes: list[int], most: int | None
) -> None:
    made = list(batches(sizes, lambda size: size, most=most))

    assert [size for batch in made for size in batch] == sizes
    assert all(batch for batch in made)
    assert all(sum(batch) <= BATCH_BYTES or len(batch) == 1 for batch in made)
    assert most is None or all(len(batch) <= most for batch in made)


@given(SIZES)
def test_two_neighbours_are_apart_only_because_they_would_not_fit(sizes: list[int]) -> None:
    made = list(batches(sizes, lambda size: size))

    assert all(sum(one) + two[0] > BATCH_BYTES for one, two in pairwise(made))
