"""Looks for alarms are rare while nothing happens, and never too late."""

from __future__ import annotations

from typing import Any

import pytest

from shunter.dispatch.alarm_clock import AlarmClock
from shunter.dispatch.sweep import watch_the_clock
from shunter.testing.finish import finish


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


def looks(scene: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the scene's store note what it is asked for."""
    asked: list[str] = []
    for name in ("next_alarm", "alarms", "due_callbacks", "due_dependents"):
        method = getattr(scene.store, name)

        def noted(name: str = name, method: Any = method, **how: Any) -> Any:
            asked.append(name)
            return method(**how)

        monkeypatch.setattr(scene.store, name, noted)
    return asked


def test_jobs_are_asked_for_only_when_an_alarm_has_come(scene: Any, monkeypatch: Any) -> None:
    clock, asked = AlarmClock(), looks(scene, monkeypatch)
    scene.submit("later", not_before=scene.clock() + 5)

    finish(watch_the_clock(scene.dispatcher, clock))
    assert asked == ["next_alarm"]

    scene.clock.advance(5)
    finish(watch_the_clock(scene.dispatcher, clock))
    assert asked[1:3] == ["next_alarm", "alarms"]
    assert scene.dispatcher.has_arrivals


def test_a_turn_that_wrote_no_job_is_no_reason_to_look(scene: Any, monkeypatch: Any) -> None:
    scene.worker()
    clock, asked = AlarmClock(), looks(scene, monkeypatch)
    finish(watch_the_clock(scene.dispatcher, clock))
    turns = scene.dispatcher.turns

    scene.dispatcher.heard(["w-1"])
    scene.dispatcher.expect_waiting()
    scene.turns()
    assert scene.dispatcher.turns > turns
    finish(watch_the_clock(scene.dispatcher, clock))
    assert asked == ["next_alarm"]

    scene.submit("j-1")
    finish(watch_the_clock(scene.dispatcher, clock))
    assert asked == ["next_alarm"] * 2
