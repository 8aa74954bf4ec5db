"""Schedules that apps declare reach the store, the newer ones count, and everybody is told."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shunter.dispatch.declarations import Declarations
from shunter.dispatch.schedule_records import change_schedule, find_records, schedule_in
from shunter.dispatch.tick_sweep import TickSweep
from shunter.model.schedule import Schedule, ScheduleTerms
from shunter.model.timing import Every
from shunter.model.worker import DeclaredSchedule, Handler, Worker
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene


class Declaring:
    """A dispatcher that hears declarations, and what it says about them."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.told = scene, list[str]()
        dispatcher = scene.dispatcher
        self.ticks = TickSweep(dispatcher, new_id=lambda: "j", look_seconds=0.0)
        self.declarations = Declarations(
            dispatcher, self.ticks.timetable, tell=lambda name, text: self.told.append(text)
        )

    def worker(self, name: str, every: float | None, started: float) -> None:
        """Let a worker come whose app has the handler `beat`."""
        schedule = None
        if every is not None:
            terms = ScheduleTerms(timing=Every(every))
            schedule = DeclaredSchedule(terms, b"\xc0", started)
        arrival = self.scene.arrival(name, "beat")
        handlers = (Handler("beat", schedule=schedule),)
        worker: Worker = replace(arrival.worker, handlers=handlers)
        self.scene.dispatcher.introduce(replace(arrival, worker=worker))
        self.scene.turns()
        finish(self.ticks.sweep())
        finish(self.declarations.sweep())

    @property
    def schedule(self) -> Schedule:
        found = finish(find_records(self.scene.store, ["/beat"]))
        return schedule_in(found["/beat"])

    def notes(self) -> list[tuple[str, str]]:
        return self.scene.said.notes


def test_what_a_worker_declares_is_in_the_store_when_it_has_registered(scene: Any) -> None:
    declaring = Declaring(scene)
    declaring.worker("w-1", 30.0, started=1.0)
    declaring.worker("w-2", 30.0, started=2.0)

    assert declaring.schedule.terms.timing == Every(30.0)
    assert declaring.schedule.declared_by == "w-2"
    assert declaring.told == []
    assert declaring.notes() == []


def test_of_two_that_differ_the_newer_counts_and_both_are_told(scene: Any) -> None:
    declaring = Declaring(scene)
    declaring.worker("w-1", 30.0, started=1.0)
    declaring.worker("w-2", 60.0, started=2.0)
    assert {worker for worker, _ in declaring.notes()} == {"w-1", "w-2"}
    declaring.worker("w-1", 30.0, started=1.0)

    assert declaring.schedule.terms.timing == Every(60.0)
    (text,) = declaring.told
    assert "every 60 s" in text
    assert "by worker w-2, which was started last" in text
    assert "same version" in text


def test_nobody_is_newer_than_now_and_workers_are_stored_without_their_schedules(
    scene: Any,
) -> None:
    declaring = Declaring(scene)
    declaring.worker("w-1", 30.0, started=1e11)
    declaring.worker("w-3", 30.0, started=float("nan"))
    scene.clock.advance(10.0)
    declaring.worker("w-2", 60.0, started=scene.clock() - 5.0)

    assert declaring.schedule.terms.timing == Every(60.0)
    assert {it.handlers for it in finish(scene.store.workers())} == {(Handler("beat"),)}


def test_what_an_app_does_not_declare_any_more_goes_on_and_is_told_once(scene: Any) -> None:
    declaring = Declaring(scene)
    declaring.worker("w-1", 30.0, started=1.0)
    declaring.worker("w-2", None, started=2.0)
    declaring.worker("w-2", None, started=2.0)

    assert declaring.schedule.terms.timing == Every(30.0)
    (text,) = declaring.told
    assert "shunter schedule rm beat" in text


def test_what_a_client_has_put_counts_more_than_what_an_app_declares(scene: Any) -> None:
    declaring = Declaring(scene)
    declaring.worker("w-1", 30.0, started=1.0)

    def by_hand(known: Schedule | None) -> Schedule:
        assert known is not None
        return replace(known, declared=None, terms=ScheduleTerms(timing=Every(5.0)))

    finish(change_schedule(scene.store, "", "beat", by_hand))
    declaring.worker("w-2", 60.0, started=2.0)

    assert declaring.schedule.terms.timing == Every(5.0)
    assert "was put by a client" in declaring.told[0]
    assert [worker for worker, _ in declaring.notes()] == ["w-2"]
