"""What is logged once, or once in a while."""

from __future__ import annotations

from collections import Counter

from structlog.testing import capture_logs

from shunter.refusal_log import REMEMBERED, LogThrottle, RefusalLog


def test_each_thing_is_said_once_where_nothing_repeats() -> None:
    throttle = LogThrottle()

    assert throttle.admit("a", now=0.0)
    assert throttle.admit("b", now=0.0)
    assert not throttle.admit("a", now=1e9)


def test_what_goes_on_is_said_again_after_so_long_since_it_was_said() -> None:
    throttle = LogThrottle(again_after=60.0)

    said = [now for now in range(200) if throttle.admit("silent", now=float(now))]

    assert said == [0, 60, 120, 180]


def test_of_many_things_the_one_that_was_said_first_is_forgotten() -> None:
    throttle = LogThrottle(again_after=1.0)
    throttle.admit("old", now=0.0)
    throttle.admit("renewed", now=0.0)
    throttle.admit("renewed", now=1.0)
    for number in range(REMEMBERED - 1):
        throttle.admit(number, now=1.0)

    assert not throttle.admit("renewed", now=1.0)
    assert throttle.admit("old", now=0.5)


def test_a_refusal_is_counted_each_time_and_logged_once_for_each_peer_and_reason() -> None:
    counters = Counter[str]()
    refusals = RefusalLog(counters)

    with capture_logs() as lines:
        for peer in ("a", "b", "a"):
            refusals.note(peer, "frames", "no frames")

    assert counters == {"refused_frames": 3}
    assert [line["peer"] for line in lines] == ["a", "b"]
