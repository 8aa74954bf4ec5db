"""When children are started, when it is over, and how many slots are offered."""

from __future__ import annotations

from shunter.worker.pool.starts import AFTER_FAILURE, MAX_FAILURES, ChildStarts


def test_children_start_a_few_at_a_time_until_there_are_enough() -> None:
    starts = ChildStarts(5, at_once=2)

    assert starts.may_start(alive=0, starting=1, now=0.0)
    assert not starts.may_start(alive=0, starting=2, now=0.0)
    assert starts.may_start(alive=3, starting=1, now=0.0)
    assert not starts.may_start(alive=4, starting=1, now=0.0)


def test_slots_are_offered_as_children_come_up() -> None:
    starts = ChildStarts(3, at_once=2)
    assert starts.offered(0) == 0

    offered = []
    for alive in (1, 2, 3):
        starts.came_alive(alive)
        offered.append(starts.offered(alive))

    assert offered == [1, 2, 3]


def test_a_slot_whose_child_is_being_replaced_is_still_offered() -> None:
    starts = ChildStarts(3, at_once=2)
    starts.came_alive(3)

    assert starts.offered(2) == 3


def test_only_children_that_live_are_offered_while_replacements_fail() -> None:
    starts = ChildStarts(3, at_once=2)
    starts.came_alive(3)
    starts.failed(now=0.0)
    assert starts.offered(2) == 2

    starts.came_alive(3)
    assert starts.offered(3) == 3


def test_each_failure_in_a_row_makes_the_next_start_wait_longer_up_to_a_limit() -> None:
    starts = ChildStarts(1, at_once=2)
    waits = []
    for _ in range(8):
        starts.failed(now=0.0)
        wait = next(w for w in range(1, 100) if starts.may_start(alive=0, starting=0, now=w / 10))
        waits.append(wait / 10)

    assert waits == sorted(waits)
    assert waits[0] == AFTER_FAILURE.delay
    assert waits[-1] == AFTER_FAILURE.max_delay


def test_one_that_comes_alive_ends_the_wait() -> None:
    starts = ChildStarts(2, at_once=2)
    starts.failed(now=0.0)
    assert not starts.may_start(alive=1, starting=0, now=0.0)

    starts.came_alive(1)

    assert starts.may_start(alive=1, starting=0, now=0.0)


def test_it_is_over_after_several_failures_in_a_row_and_only_if_none_is_alive() -> None:
    starts = ChildStarts(2, at_once=2)
    for _ in range(MAX_FAILURES - 1):
        starts.failed(now=0.0)
    assert not starts.is_hopeless(alive=0)

    starts.failed(now=0.0)
    assert starts.is_hopeless(alive=0)
    assert not starts.is_hopeless(alive=1)

    starts.came_alive(1)
    assert not starts.is_hopeless(alive=0)


def test_setups_that_fail_make_the_next_child_wait_and_never_end_it() -> None:
    starts = ChildStarts(3, at_once=2)
    starts.came_alive(3)
    for at in range(3 * MAX_FAILURES):
        starts.setup_failed(now=float(at))

    assert starts.offered(1) == 1
    assert not starts.is_hopeless(alive=0)
    last = 3 * MAX_FAILURES + AFTER_FAILURE.max_delay
    assert not starts.may_start(alive=0, starting=0, now=last - 1.1)
    assert starts.may_start(alive=0, starting=0, now=last)
    starts.came_alive(1)
    assert starts.offered(2) == 3
