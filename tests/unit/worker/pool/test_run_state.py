"""What parent and child write for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.model.limits import MAX_NOTE_BYTES
from shunter.worker.pool.run_state import RunProgress, SharedRunState


@pytest.fixture
def sides() -> Iterator[tuple[SharedRunState, SharedRunState]]:
    """The same shared state, as the child and as the parent sees it."""
    fd = SharedRunState.create()
    child, parent = SharedRunState(fd), SharedRunState(fd)
    os.close(fd)
    yield child, parent
    child.close()
    parent.close()


Sides = tuple[SharedRunState, SharedRunState]


def test_a_fresh_state_shows_nothing(sides: Sides) -> None:
    _, parent = sides

    assert parent.key == 0
    assert not parent.is_asked_to_stop
    assert parent.progress() == RunProgress(0, 0, 0.0, 0.0)


def test_the_parent_sees_what_runs_and_since_when(sides: Sides) -> None:
    child, parent = sides

    child.begin(7, 12.5)
    assert (parent.key, parent.started) == (7, 12.5)

    child.end()
    assert parent.key == 0


def test_a_request_counts_for_the_run_it_names(sides: Sides) -> None:
    child, parent = sides
    child.begin(7, 1.0)

    parent.ask_to_stop(7)

    assert child.is_asked_to_stop


def test_a_request_for_a_run_that_is_over_stops_nobody(sides: Sides) -> None:
    child, parent = sides
    child.begin(7, 1.0)
    parent.ask_to_stop(7)
    child.end()
    assert not child.is_asked_to_stop

    child.begin(8, 2.0)
    assert not child.is_asked_to_stop


def test_progress_belongs_to_the_run_that_made_it(sides: Sides) -> None:
    child, parent = sides
    child.begin(7, 1.0)
    child.note_progress(3, 10)
    child.end()
    child.begin(8, 2.0)

    assert parent.progress() == RunProgress(2, 7, 3.0, 10.0)


def test_each_note_of_progress_is_a_change_and_an_unknown_total_stays_unknown(
    sides: Sides,
) -> None:
    child, parent = sides
    child.begin(7, 1.0)
    child.note_progress(1, None)
    first = parent.progress()
    child.note_progress(1, None)

    assert first == RunProgress(2, 7, 1.0, None)
    assert parent.progress() == RunProgress(4, 7, 1.0, None)


def test_a_note_that_is_being_written_is_not_read(sides: Sides) -> None:
    child, parent = sides
    child._words[3] = 1

    assert parent.progress() is None


@given(
    st.integers(min_value=1, max_value=2**64 - 1),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False),
)
def test_every_value_comes_across(key: int, done: float, total: float) -> None:
    fd = SharedRunState.create()
    child, parent = SharedRunState(fd), SharedRunState(fd)
    os.close(fd)

    child.begin(key, done)
    child.note_progress(done, total)

    assert (parent.key, parent.started) == (key, done)
    assert parent.progress() == RunProgress(2, key, done, total)
    child.close()
    parent.close()


def test_a_note_is_seen_with_the_progress_it_belongs_to(sides: Sides) -> None:
    child, parent = sides
    child.begin(7, 1.0)

    child.note_progress(1.0, None, "größer".encode())
    assert parent.progress() == RunProgress(2, 7, 1.0, None, "größer")

    child.note_progress(2.0, None)
    assert parent.progress() == RunProgress(4, 7, 2.0, None, "")


def test_there_is_room_for_the_longest_note(sides: Sides) -> None:
    child, parent = sides
    child.begin(7, 1.0)

    child.note_progress(1.0, 2.0, b"x" * MAX_NOTE_BYTES)

    assert parent.progress() == RunProgress(2, 7, 1.0, 2.0, "x" * MAX_NOTE_BYTES)
