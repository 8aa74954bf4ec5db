"""How many jobs a worker asks for, and which it gives back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.worker.pool.job_window import JobWindow, waited_too_long

seconds = st.floats(min_value=0.0, max_value=1e6)
slots = st.integers(min_value=1, max_value=64)
batches = st.lists(st.tuples(st.integers(min_value=1, max_value=300), seconds), max_size=20)


def test_a_worker_that_has_run_nothing_asks_for_one_job_per_slot() -> None:
    assert JobWindow(3).limit == 3


def test_short_jobs_are_asked_for_ahead_of_time() -> None:
    window = JobWindow(2, target=0.02, ceiling=256)
    window.ran(100, 100 * 0.001)

    assert window.limit == 2 * 20


def test_jobs_that_take_no_time_at_all_are_asked_for_up_to_the_ceiling() -> None:
    window = JobWindow(2, ceiling=256)
    window.ran(10, 0.0)

    assert window.limit == 256


def test_long_jobs_are_never_asked_for_ahead_of_time() -> None:
    window = JobWindow(2)
    window.ran(1, 0.02)

    assert window.limit == 2


def test_a_run_that_grows_old_closes_the_window_before_it_ends() -> None:
    window = JobWindow(2)
    window.ran(1000, 1000 * 0.00001)
    assert window.limit == 256

    window.running([1.0])
    assert window.limit == 2

    window.running([])
    assert window.limit == 256


def test_a_run_younger_than_the_mean_changes_nothing() -> None:
    window = JobWindow(2)
    window.ran(1, 0.004)
    before = window.limit

    window.running([0.001, 0.0039])

    assert window.limit == before


def test_the_mean_follows_the_jobs_when_they_change() -> None:
    window = JobWindow(1, target=0.02)
    window.ran(1000, 1000 * 0.0001)
    window.ran(100, 100 * 1.0)

    assert window.limit == 1


@given(slots, st.integers(min_value=1, max_value=1000), batches, st.lists(seconds, max_size=8))
def test_the_limit_is_never_below_the_slots_nor_above_the_ceiling(
    slots: int, ceiling: int, batches: list[tuple[int, float]], ages: list[float]
) -> None:
    window = JobWindow(slots, ceiling=ceiling)
    for runs, total in batches:
        window.ran(runs, total)
    window.running(ages)

    assert slots <= window.limit <= max(slots, ceiling)


@given(slots, batches, st.lists(seconds, max_size=8), seconds)
def test_one_more_run_under_way_never_opens_the_window(
    slots: int, batches: list[tuple[int, float]], ages: list[float], age: float
) -> None:
    window = JobWindow(slots)
    for runs, total in batches:
        window.ran(runs, total)
    window.running(ages)
    before = window.limit

    window.running([*ages, age])

    assert window.limit <= before


@given(slots, st.floats(min_value=1e-9, max_value=10), st.integers(min_value=1, max_value=500))
def test_jobs_of_one_length_are_asked_for_by_the_formula(
    slots: int, length: float, runs: int
) -> None:
    window = JobWindow(slots, target=0.02, ceiling=256)
    window.ran(runs, runs * length)

    expected = slots * math.ceil(0.02 / length)
    assert window.limit == pytest.approx(max(slots, min(expected, 256)), abs=slots)


def test_only_what_has_waited_long_enough_is_given_back() -> None:
    waiting = [(1, 10.0), (2, 10.4), (3, 10.6)]

    assert waited_too_long(waiting, now=10.95, give_back_after=0.5) == [1, 2]


@given(st.lists(st.floats(min_value=0, max_value=100)), st.floats(min_value=0, max_value=100))
def test_what_is_given_back_are_the_oldest(given_at: list[float], now: float) -> None:
    waiting = list(enumerate(sorted(given_at)))

    back = waited_too_long(waiting, now=now, give_back_after=0.5)

    assert back == [key for key, at in waiting if now - at >= 0.5]


def test_the_window_grows_with_the_slots_and_is_shut_without_any() -> None:
    window = JobWindow(0, target=0.02)
    assert window.limit == 0

    window.ran(100, 100.0)
    limits = []
    for slots in (1, 2, 60, 0):
        window.slots = slots
        limits.append(window.limit)

    assert limits == [1, 2, 60, 0]


def test_as_many_are_sent_ahead_as_are_done_in_the_time_that_the_next_takes_to_come() -> None:
    window = JobWindow(1000, ceiling=256)
    assert window.ahead(0.05) == 0, "nothing is known yet"

    window.ran(10, 1.0)
    assert window.ahead(0.05) == 500
    window.ran(1000, 100_000.0)
    assert window.ahead(0.05) == 0
    window = JobWindow(2, ceiling=256)
    window.ran(10, 0.0)
    assert window.ahead(0.05) == 256
