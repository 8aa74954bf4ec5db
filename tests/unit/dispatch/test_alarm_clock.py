"""Looks for alarms are rare while nothing happens, and never too late."""

from __future__ import annotations

from shunter.dispatch.alarm_clock import AlarmClock


def test_the_first_look_is_at_once() -> None:
    assert AlarmClock().is_time(now=0.0, turns=0)


def test_while_nothing_happens_a_look_a_second_is_enough() -> None:
    clock = AlarmClock()
    clock.looked(now=10.0, turns=3, next_alarm=None)

    assert not clock.is_time(now=10.9, turns=3)
    assert clock.is_time(now=11.0, turns=3)


def test_after_a_turn_of_ours_there_may_be_a_new_alarm() -> None:
    clock = AlarmClock()
    clock.looked(now=10.0, turns=3, next_alarm=None)

    assert clock.is_time(now=10.1, turns=4)


def test_an_alarm_that_is_known_is_looked_for_in_time() -> None:
    clock = AlarmClock()
    clock.looked(now=10.0, turns=3, next_alarm=10.4)

    assert not clock.is_time(now=10.3, turns=3)
    assert clock.is_time(now=10.4, turns=3)
