"""How many seats: one for each slot, more while short tasks keep coming, and fewer again."""

from __future__ import annotations

import pytest

from shunter.worker.udp.seating import BRISK, CALM_LOOKS, SEATS_PER_SLOT, Seating

WIDE = 1000


def after(seating: Seating, seats: int, *, begun: int, looks: int, window: int = WIDE) -> int:
    for _ in range(looks):
        seats = seating.wanted(seats, begun=begun, window=window)
    return seats


@pytest.mark.parametrize("begun", [0, 1, BRISK - 1])
def test_few_tasks_need_no_more_seats_than_slots(begun: int) -> None:
    assert after(Seating(1), 1, begun=begun, looks=100) == 1


def test_while_tasks_keep_coming_seats_double_up_to_a_bound() -> None:
    seating = Seating(2)

    assert seating.wanted(2, begun=2 * BRISK, window=WIDE) == 4
    assert after(seating, 4, begun=10_000, looks=10) == 2 * SEATS_PER_SLOT


def test_there_are_no_more_than_the_crew_does_in_a_moment() -> None:
    seating = Seating(1)

    assert after(seating, 1, begun=10_000, looks=10, window=5) == 5
    assert seating.wanted(5, begun=10_000, window=1) == 1


def test_the_window_of_a_slow_crew_leaves_each_slot_its_seat() -> None:
    assert Seating(4).wanted(8, begun=0, window=1) == 4


def test_seats_that_are_not_needed_go_after_a_while() -> None:
    seating = Seating(1)

    assert after(seating, 16, begun=15, looks=CALM_LOOKS - 1) == 16
    assert seating.wanted(16, begun=15, window=WIDE) == 8


def test_one_good_moment_keeps_them() -> None:
    seating = Seating(1)
    after(seating, 16, begun=0, looks=CALM_LOOKS - 1)

    seating.wanted(16, begun=16, window=WIDE)

    assert after(seating, 16, begun=0, looks=CALM_LOOKS - 1) == 16
