"""A run that does not get on is noticed."""

from __future__ import annotations

from shunter.flow.stall import Stall


def test_a_run_that_moves_is_not_stalled() -> None:
    stall = Stall(after=60.0)

    assert [stall.seen(now, count) for count, now in enumerate((0.0, 100.0, 200.0))] == [None] * 3


def test_a_run_that_stands_still_is_stalled_until_it_moves_again() -> None:
    stall = Stall(after=60.0)
    stall.seen(0.0, (7, 3))

    assert stall.seen(59.0, (7, 3)) is None
    assert stall.seen(61.5, (7, 3)) == 61.5
    assert stall.seen(62.0, (7, 4)) is None
    assert stall.seen(122.0, (7, 4)) == 60.0


def test_counts_that_begin_anew_are_a_move() -> None:
    stall = Stall(after=10.0)
    stall.seen(0.0, 5)

    assert stall.seen(11.0, 0) is None
