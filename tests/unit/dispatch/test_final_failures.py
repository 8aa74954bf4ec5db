"""Jobs that failed for good where no hook could be called get a job that calls it, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import Survey
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.pauses import pause
from shunter.model.final_failure import WAITS_SECONDS, read_final_failure
from shunter.model.job import ErrorKind, Failure, Job, Status
from shunter.model.job_limits import JobLimits, Limit
from shunter.model.pause import PauseTarget
from shunter.model.report import Held, Report
from shunter.model.submission import Receipt
from shunter.model.worker import Handler, WorkerKind
from shunter.testing.finish import finish
from unit.dispatch.conftest import Scene

J1 = Held("j-1", 1)
HOOK = "final-failure/j-1"


def hooked(scene: Scene, name: str = "w-1", *, at: Dispatcher | None = None, **how: Any) -> None:
    """Let a worker in whose app has hooks."""
    arrival = scene.arrival(name, at=at, **how)
    handlers = (Handler("t", has_hooks=True),)
    worker = replace(arrival.worker, handlers=handlers)
    (at or scene.dispatcher).introduce(replace(arrival, worker=worker))
    scene.turns(at)


def fail(scene: Scene, kind: ErrorKind = ErrorKind.EXCEPTION, **failure: Any) -> None:
    scene.report("w-1", Report("j-1", 1, error=Failure(kind, "oops", **failure)))


def stored(scene: Scene, job_id: str = HOOK) -> Job | None:
    (job,) = finish(scene.store.get([job_id], payload=True))
    return job


def falls_silent(scene: Scene) -> None:
    scene.survey()
    scene.clock.advance(10.0)
    scene.survey()


def times_out(scene: Scene) -> None:
    fail(scene, ErrorKind.TIMEOUT)


def loses_its_process(scene: Scene) -> None:
    fail(scene, ErrorKind.LOST)


def blocks_its_loop(scene: Scene) -> None:
    fail(scene)


def overstays(scene: Scene) -> None:
    scene.clock.advance(200.0)
    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        (falls_silent, "lost"),
        (loses_its_process, "lost"),
        (times_out, "timeout"),
        (overstays, "timeout"),
        (blocks_its_loop, "exception"),
    ],
)
def test_what_ends_for_good_where_nobody_was_told_gets_a_job_that_calls_the_hooks(
    scene: Scene, ends: Callable[[Scene], None], kind: str
) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once", timeout=100.0)

    ends(scene)
    hooked(scene, "w-2")

    job, hook = scene.job("j-1"), stored(scene)
    assert (job.status, job.hook_job, job.dependents) == (Status.FAILED, HOOK, False)
    assert hook is not None
    assert (hook.type, hook.status) == ("final-failure/t", Status.IN_PROGRESS)
    told = read_final_failure(hook.payload or b"")
    assert (told.job_id, told.type, told.attempt, told.kind) == ("j-1", "t", 1, kind)
    assert [run for run in scene.runs() if run[1] == HOOK]


def test_what_no_worker_took_in_time_gets_one_too_though_its_workers_are_gone(
    scene: Scene,
) -> None:
    hooked(scene)
    falls_silent(scene)
    scene.dispatcher.leave("w-1")
    assert finish(scene.store.workers())[0].is_dead
    scene.clock.advance(2 * sweep.GONE_WORKER_KEPT_SECONDS)
    finish(sweep.forget_gone(scene.dispatcher))
    scene.survey()
    scene.submit("j-1", place_within=5.0)

    scene.clock.advance(6.0)
    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()

    assert scene.job("j-1").error.kind is ErrorKind.UNPLACED  # type: ignore[union-attr]
    hook = stored(scene)
    assert hook is not None
    assert hook.status is Status.QUEUED
    hooked(scene, "w-2")
    assert ("w-2", HOOK) in scene.runs()


def test_of_workers_that_are_gone_the_last_with_hooks_is_remembered_for_a_week(
    scene: Scene,
) -> None:
    for name in ("w-1", "w-2", "w-3"):
        scene.clock.advance(1.0)
        (scene.worker if name == "w-3" else partial(hooked, scene))(name)
    falls_silent(scene)
    for name in ("w-1", "w-2", "w-3"):
        scene.dispatcher.leave(name)
    scene.turns()

    scene.clock.advance(2 * sweep.GONE_WORKER_KEPT_SECONDS)
    finish(sweep.forget_gone(scene.dispatcher))
    assert [worker.id for worker in finish(scene.store.workers())] == ["w-2"]

    scene.clock.advance(WAITS_SECONDS)
    finish(sweep.forget_gone(scene.dispatcher))
    assert finish(scene.store.workers()) == []


def test_neither_a_run_that_told_it_itself_nor_a_cancel_nor_a_type_without_hooks_gets_one(
    scene: Scene,
) -> None:
    hooked(scene)
    scene.submit("j-1")
    fail(scene, is_told=True)
    scene.submit("j-2")
    receipts: list[Receipt] = []
    scene.dispatcher.cancel(["j-2"], receipts.extend)
    scene.turns()
    cancelled = Failure(ErrorKind.CANCELLED, "cancelled on request")
    scene.report("w-1", Report("j-2", 1, error=cancelled))
    scene.worker("w-2", "u")
    scene.submit("j-3", type="u")
    scene.report("w-2", Report("j-3", 1, error=Failure(ErrorKind.TIMEOUT, "late")))

    statuses = [scene.job(f"j-{n}").status for n in (1, 2, 3)]
    assert statuses == [Status.FAILED, Status.CANCELLED, Status.FAILED]
    assert [scene.job(f"j-{n}").hook_job for n in (1, 2, 3)] == [None, None, None]
    assert [stored(scene, f"final-failure/j-{n}") for n in (1, 2, 3)] == [None, None, None]


def test_a_job_that_is_tried_again_gets_none_yet(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1")

    loses_its_process(scene)

    assert scene.job("j-1").status is not Status.FAILED
    assert stored(scene) is None


def test_a_hook_that_fails_or_is_lost_for_good_gets_no_other(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1")
    times_out(scene)

    failure = Failure(ErrorKind.EXCEPTION, "no mail today")
    scene.report("w-1", Report(HOOK, 1, error=failure))

    hook = stored(scene)
    assert hook is not None
    assert (hook.status, hook.hook_job) == (Status.FAILED, None)
    assert stored(scene, f"final-failure/{HOOK}") is None


def test_a_lost_hook_is_called_again(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1")
    times_out(scene)

    scene.report("w-1", Report(HOOK, 1, error=Failure(ErrorKind.LOST, "killed")))

    assert scene.runs().count(("w-1", HOOK)) == 2


def test_a_dispatcher_that_dies_between_the_two_writes_leaves_it_to_another(
    scene: Scene,
) -> None:
    hooked(scene)
    scene.submit("j-1")
    scene.dispatcher.report("w-1", [Report("j-1", 1, error=Failure(ErrorKind.TIMEOUT, "late"))])
    assert finish(scene.dispatcher.turn())  # and nothing more of it
    assert (scene.job("j-1").hook_job, stored(scene)) == (HOOK, None)

    second = scene.another_dispatcher("d-2")
    finish(sweep.tell_dependents(second))
    scene.turns(second)
    assert stored(scene) is not None
    hooked(scene, "w-2", at=second)
    scene.turns()  # the first one was not dead after all

    assert [run for run in scene.runs() if run[1] == HOOK] == [("w-2", HOOK)]
    assert not scene.job("j-1").dependents


def test_a_dispatcher_that_was_just_started_knows_of_hooks_by_the_records_of_workers(
    scene: Scene,
) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once")
    second = scene.another_dispatcher("d-2")
    scene.survey(second)
    scene.clock.advance(60.0)

    scene.survey(second)

    assert stored(scene) is not None


def test_a_dispatcher_that_gives_a_job_up_looks_first_whether_its_type_has_hooks(
    scene: Scene,
) -> None:
    scene.submit("j-1", place_within=5.0)
    elsewhere = scene.another_dispatcher("d-2")
    scene.clock.advance(6.0)
    hooked(scene, "w-2", at=elsewhere, slots=0)

    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()

    assert scene.job("j-1").hook_job == HOOK


def test_a_call_that_waits_in_the_store_goes_to_a_worker_of_any_dispatcher(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once")
    falls_silent(scene)
    third = scene.another_dispatcher("d-3")

    hooked(scene, "w-3", at=third)

    assert ("w-3", HOOK) in scene.runs()


def test_a_look_at_workers_that_is_older_than_one_of_ours_does_not_forget_its_hooks(
    scene: Scene,
) -> None:
    hooked(scene)
    scene.submit("j-1")
    scene.dispatcher.survey(Survey([], scene.clock(), scene.said))
    scene.turns()

    times_out(scene)

    assert scene.job("j-1").hook_job == HOOK


def test_a_job_whose_worker_has_no_record_any_more_gets_one_if_another_has_hooks(
    scene: Scene,
) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once")
    hooked(scene, "w-2")
    (gone,) = finish(scene.store.workers(["w-1"]))
    finish(scene.store.remove_workers([gone]))
    second = scene.another_dispatcher("d-2")

    finish(sweep.find_orphans(second))
    scene.turns(second)

    assert scene.job("j-1").hook_job == HOOK
    assert stored(scene) is not None


def test_workers_without_hooks_never_get_such_a_job(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once")
    scene.worker("w-0", "t", slots=5)
    scene.worker("plain:1", "t", kind=WorkerKind.PLAIN)

    falls_silent(scene)
    assert stored(scene).status is Status.QUEUED  # type: ignore[union-attr]
    hooked(scene, "w-2")

    assert [run for run in scene.runs() if run[1] == HOOK] == [("w-2", HOOK)]


def test_it_neither_waits_for_a_limit_of_the_type_nor_for_its_pause(scene: Scene) -> None:
    arrival = scene.arrival("w-1", slots=5)
    limits = JobLimits(limit=Limit(1))
    worker = replace(arrival.worker, handlers=(Handler("t", has_hooks=True, limits=limits),))
    scene.dispatcher.introduce(replace(arrival, worker=worker))
    finish(sweep.share_limits(scene.dispatcher))
    scene.turns()
    scene.submit("j-1")
    scene.submit("j-2")
    finish(pause(scene.dispatcher, PauseTarget.TYPE, "t"))
    scene.turns()

    times_out(scene)

    assert scene.job("j-2").status is Status.QUEUED
    assert scene.runs() == [("w-1", "j-1"), ("w-1", HOOK)]


def test_one_that_nobody_can_do_is_given_up_after_a_week(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1", effects="at_most_once")
    falls_silent(scene)

    scene.clock.advance(WAITS_SECONDS + 1.0)
    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()

    hook = stored(scene)
    assert hook is not None
    assert hook.status is Status.FAILED
    assert hook.hook_job is None


@pytest.mark.parametrize("field", ["id", "type"])
def test_nobody_may_submit_under_such_a_name(scene: Scene, field: str) -> None:
    fields = {"id": "j-1", "type": "t", field: "final-failure/x"}

    (receipt,) = scene.submit(fields["id"], type=fields["type"])

    assert receipt.field == field
    assert "Shunter's own; choose another" in receipt.reason


def test_such_a_job_can_be_rerun(scene: Scene) -> None:
    hooked(scene)
    scene.submit("j-1")
    times_out(scene)
    scene.report("w-1", Report(HOOK, 1, error=Failure(ErrorKind.EXCEPTION, "no mail today")))
    hook = stored(scene)
    assert hook is not None

    (receipt,) = scene.submit("again", type=hook.type, payload=hook.payload, rerun_of=HOOK)

    assert receipt.reason == ""
    assert ("w-1", "again") in scene.runs()
