"""All dispatchers are asked, then there is a pause that grows."""

from __future__ import annotations

import pytest

from shunter.worker.http.schedule import FIRST_SECONDS, LONGEST_SECONDS, DispatcherRing, pause


def test_no_dispatcher_is_waited_for_while_another_has_not_been_asked() -> None:
    waits = [pause(failures, 3, spread=0.0) for failures in range(1, 7)]

    assert waits == [0.0, 0.0, FIRST_SECONDS, 0.0, 0.0, 2 * FIRST_SECONDS]


def test_pauses_grow_up_to_a_bound() -> None:
    waits = [pause(failures, 1, spread=0.0) for failures in range(1, 10_000)]

    assert waits == sorted(waits)
    assert waits[0] == FIRST_SECONDS
    assert waits[-1] == LONGEST_SECONDS


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.999])
def test_a_part_of_each_pause_is_random(spread: float) -> None:
    wait = pause(1, 1, spread=spread)

    assert FIRST_SECONDS / 2 < wait <= FIRST_SECONDS
    assert (wait < FIRST_SECONDS) is (spread > 0)


def test_the_circle_moves_on_once_for_all_who_failed_at_the_same_place() -> None:
    circle = DispatcherRing(["http://a/", "http://b", "http://c"])
    place = circle.current

    circle.failed(place)
    circle.failed(place)

    assert (place, circle.current) == ("http://a", "http://b")


def test_the_circle_closes() -> None:
    circle = DispatcherRing(["http://a", "http://b"])
    for _ in range(2):
        circle.failed(circle.current)

    assert circle.current == "http://a"
