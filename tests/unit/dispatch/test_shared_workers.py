"""Workers that all dispatchers share: who may be given what, when others give as well."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import Survey
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.settlement import MOST_KEPT_BACK
from shunter.model import health
from shunter.model.job import Status
from shunter.model.report import Held, Report
from shunter.model.worker import Worker
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene


def come(scene: Scene, *, slots: int = 2, port: int = 1, **changes: Any) -> Worker:
    worker = health.registered(
        None, hostname="h", port=port, handlers=("t",), max_jobs=slots, now=scene.clock()
    )
    worker = replace(worker, **changes)
    assert finish(scene.store.swap_workers([worker])) == [True]
    return worker


def survey(scene: Scene, *dispatchers: Dispatcher) -> None:
    for dispatcher in dispatchers or (scene.dispatcher,):
        workers = finish(scene.store.workers())
        dispatcher.survey(Survey(workers, scene.clock(), scene.said))
        scene.turns(dispatcher)


def in_progress(scene: Scene, worker: Worker) -> list[str]:
    return [job.id for job in finish(scene.store.held_by([worker.id]))]


def test_a_registered_worker_gets_waiting_jobs_and_new_ones(scene: Scene) -> None:
    scene.submit("a")
    worker = come(scene)

    survey(scene)
    scene.submit("b")

    assert scene.runs() == [(worker.id, "a"), (worker.id, "b")]
    assert {scene.job("a").execution.place, scene.job("b").execution.place} == {0, 1}
    assert scene.job("a").attempt == 1


def test_a_returned_job_is_not_kept_back_for_ever_where_its_worker_has_most_room(
    scene: Scene,
) -> None:
    big, _ = come(scene, slots=2, port=1), come(scene, slots=1, port=2)
    survey(scene)
    scene.submit("a")
    assert scene.runs() == [(big.id, "a")]

    scene.dispatcher.give_back(big.id, [Held("a", 1)], "the store took long")
    scene.turns()

    assert scene.runs()[1:] == [(big.id, "a")]
    assert len(scene.job("a").history) <= MOST_KEPT_BACK


def test_it_is_never_given_more_than_it_can_hold(scene: Scene) -> None:
    worker = come(scene, slots=2)
    survey(scene)

    scene.submit("a", "b", "c", "d")

    assert len(scene.runs()) == 2
    scene.report(worker.id, Report("a", 1, result=b"\xc0"))
    assert [job_id for _, job_id in scene.runs()] == ["a", "b", "c"]


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_dispatchers_that_choose_at_once_never_fill_it_beyond_its_places(
    scene: Scene, slots: int
) -> None:
    """Each believes that the worker is empty, since none has looked since the others chose."""
    others = [scene.dispatcher, *(scene.another_dispatcher(f"d-{n}") for n in (2, 3))]
    worker = come(scene, slots=slots)
    survey(scene, *others)

    for number in range(4):
        for dispatcher in others:
            scene.submit(f"{dispatcher.id}-{number}", at=dispatcher)

    assert len(in_progress(scene, worker)) == slots
    assert len(scene.runs()) == slots


def test_all_jobs_get_done_whoever_hears_of_the_results(scene: Scene) -> None:
    one, two = scene.dispatcher, scene.another_dispatcher("d-2")
    worker = come(scene, slots=3)
    survey(scene, one, two)
    ids = [f"j-{number}" for number in range(30)]
    scene.submit(*ids[:15], at=one)
    scene.submit(*ids[15:], at=two)

    for turn in range(200):
        held = finish(scene.store.held_by([worker.id]))
        assert len(held) <= 3
        for job in held[:1]:
            at = (one, two)[turn % 2]
            scene.report(worker.id, Report(job.id, job.attempt, result=b"\xc0"), at=at)
        scene.clock.advance(0.3)
        if turn % 3 == 0:
            survey(scene, one, two)
            for dispatcher in (one, two):
                finish(sweep.ring_alarms(dispatcher))
                dispatcher.expect_waiting()
                scene.turns(dispatcher)

    assert {scene.job(job_id).status for job_id in ids} == {Status.COMPLETED}
    assert len(scene.runs()) == 30


def test_who_resigned_died_or_is_unknown_gets_nothing(scene: Scene) -> None:
    come(scene, port=1, is_resigned=True)
    come(scene, port=2, is_dead=True)
    survey(scene)

    scene.submit("a")

    assert scene.runs() == []
    assert scene.job("a").status is Status.QUEUED


def test_a_worker_that_left_is_taken_off_the_roster(scene: Scene) -> None:
    worker = come(scene)
    survey(scene)
    finish(scene.store.swap_workers([health.resigned(worker, now=scene.clock())]))

    survey(scene)
    scene.submit("a")

    assert scene.runs() == []


def test_a_worker_with_other_handlers_than_before_gets_what_it_does_now(scene: Scene) -> None:
    worker = come(scene)
    survey(scene)
    again = health.registered(
        worker, hostname="h", port=1, handlers=("u",), max_jobs=1, now=scene.clock()
    )
    finish(scene.store.swap_workers([again]))
    survey(scene)

    scene.submit("a")
    scene.submit("b", type="u")

    assert scene.runs() == [(worker.id, "b")]


def test_the_freest_is_chosen_among_shared_and_own(scene: Scene) -> None:
    shared = come(scene, slots=3)
    survey(scene)
    scene.worker("w-own", "t", slots=2)

    scene.submit("a", "b", "c")

    assert sorted(worker_id for worker_id, _ in scene.runs()) == sorted(
        [shared.id, shared.id, "w-own"]
    )


def test_a_job_that_another_dispatcher_ended_frees_its_place_here(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    worker = come(scene, slots=1)
    survey(scene, scene.dispatcher, other)
    scene.submit("a")
    scene.report(worker.id, Report("a", 1, result=b"\xc0"), at=other)
    scene.clock.advance(1.0)

    finish(sweep.catch_up(scene.dispatcher))
    scene.turns()
    survey(scene)
    scene.submit("b")

    assert [job_id for _, job_id in scene.runs()] == ["a", "b"]


def test_a_worker_that_said_it_is_full_is_left_alone_for_a_while(scene: Scene) -> None:
    worker = come(scene)
    survey(scene)
    member = scene.dispatcher.state.members[worker.id]
    member.full_until = scene.clock() + 1.0
    scene.dispatcher.state.roster.adjust(worker.id, is_open=False)

    scene.submit("a")
    assert scene.runs() == []
    scene.clock.advance(1.0)
    survey(scene)
    assert scene.runs() == [(worker.id, "a")]


def test_a_worker_that_could_not_be_reached_waits_for_its_next_answer(scene: Scene) -> None:
    worker = come(scene)
    survey(scene)
    scene.dispatcher.state.members[worker.id].unreachable_since = scene.clock()
    scene.dispatcher.state.roster.adjust(worker.id, is_open=False)
    scene.submit("a")
    scene.clock.advance(10.0)
    survey(scene)
    assert scene.runs() == []

    finish(scene.store.swap_workers([health.answered(worker, now=scene.clock())]))
    survey(scene)

    assert scene.runs() == [(worker.id, "a")]


def test_a_cancel_asked_of_one_dispatcher_reaches_the_worker_of_another(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", "t")
    scene.submit("a")
    other.cancel(["a"], lambda receipts: None)
    scene.turns(other)
    assert scene.job("a").cancel_requested
    assert scene.said.cancels == []
    scene.clock.advance(0.5)

    finish(sweep.catch_up(scene.dispatcher))
    scene.turns()

    assert scene.said.cancels == [("w-1", Held("a", 1))]


def test_a_job_that_another_dispatcher_ended_is_stopped_on_our_worker(scene: Scene) -> None:
    other = scene.another_dispatcher("d-2")
    scene.worker("w-1", "t")
    scene.submit("a", timeout=1.0)
    for _ in range(2):
        scene.clock.advance(60.0)
        finish(sweep.ring_alarms(other))
        scene.turns(other)
    assert scene.job("a").status is Status.FAILED

    finish(sweep.catch_up(scene.dispatcher))
    scene.turns()

    assert scene.said.cancels == [("w-1", Held("a", 1))]
    assert scene.dispatcher.state.running == {}


def test_a_job_whose_worker_has_no_record_is_queued_again(scene: Scene) -> None:
    scene.worker("w-1", "t")
    scene.submit("a")
    finish(scene.store.remove_workers(finish(scene.store.workers())))
    other = scene.another_dispatcher("d-2")

    finish(sweep.find_orphans(other))
    scene.turns(other)

    assert scene.job("a").status is Status.QUEUED
    assert "no record" in scene.job("a").history[-1].message
