"""How many sessions: one for each slot, more while short tasks keep coming, and fewer again."""

from __future__ import annotations

import pytest

from shunter.worker.udp.session_count import (
    BRISK,
    CALM_LOOKS,
    LOOKS,
    MOST_SESSIONS,
    SESSIONS_PER_SLOT,
    SessionCount,
)

WIDE = 1000


def after(
    seating: SessionCount,
    sessions: int,
    *,
    begun: int,
    looks: int,
    idle: int = 0,
    window: int = WIDE,
) -> int:
    for _ in range(looks):
        sessions = seating.wanted(sessions, begun=begun, idle=idle, window=window)
    return sessions


@pytest.mark.parametrize("begun", [0, 2 * BRISK / LOOKS - 0.01])
def test_few_tasks_need_no_more_seats_than_slots(begun: int) -> None:
    assert after(SessionCount(2), 2, begun=begun, looks=100) == 2


def test_sessions_whose_packets_get_lost_are_between_two_tasks_for_half_of_the_time() -> None:
    assert after(SessionCount(2), 2, begun=2, idle=1, looks=2) == 4


def test_while_tasks_keep_coming_seats_double_up_to_a_bound() -> None:
    seating = SessionCount(2)

    assert seating.wanted(2, begun=2 * BRISK, idle=0, window=WIDE) == 4
    assert after(seating, 4, begun=10_000, looks=10) == 2 * SESSIONS_PER_SLOT


def test_a_worker_with_many_slots_has_no_more_sockets_than_a_process_may_open() -> None:
    assert after(SessionCount(64), 64, begun=10_000, looks=10) == MOST_SESSIONS


@pytest.mark.parametrize(("idle", "wanted"), [(0, 32), (11, 32), (12, 16), (16, 16)])
def test_there_are_no_more_while_some_wait_for_a_task(idle: int, wanted: int) -> None:
    assert SessionCount(1).wanted(16, begun=10_000, idle=idle, window=WIDE) == wanted


def test_one_task_after_another_needs_few_seats() -> None:
    seating, sessions = SessionCount(1), 1
    for _ in range(100):
        sessions = seating.wanted(sessions, begun=25, idle=sessions - 1, window=WIDE)

    assert sessions == 4


def test_there_are_no_more_than_the_pool_does_in_a_moment() -> None:
    seating = SessionCount(1)

    assert after(seating, 1, begun=10_000, looks=10, window=5) == 5
    assert seating.wanted(5, begun=10_000, idle=0, window=1) == 1


def test_the_window_of_a_slow_pool_leaves_each_slot_its_seat() -> None:
    assert SessionCount(4).wanted(8, begun=0, idle=8, window=1) == 4


def test_sessions_that_are_not_needed_go_after_a_while() -> None:
    seating = SessionCount(1)

    assert after(seating, 16, begun=1, idle=12, looks=CALM_LOOKS - 1) == 16
    assert seating.wanted(16, begun=1, idle=12, window=WIDE) == 8


def test_sessions_that_were_just_added_are_not_taken_away_by_the_tasks_that_called_for_them() -> (
    None
):
    seating = SessionCount(1)
    sessions = seating.wanted(16, begun=16, idle=0, window=WIDE)

    assert after(seating, sessions, begun=16, idle=28, looks=100) == sessions == 32


def test_one_good_moment_keeps_them() -> None:
    seating = SessionCount(1)
    after(seating, 16, begun=0, idle=16, looks=CALM_LOOKS - 1)

    seating.wanted(16, begun=8, idle=8, window=WIDE)

    assert after(seating, 16, begun=0, idle=16, looks=CALM_LOOKS - 1) == 16
