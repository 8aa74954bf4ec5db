"""What people are told: failures, second cancels, and types that contradict each other."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.dispatch.dispatcher import Dispatcher
from shunter.model.job import ErrorKind, Failure, Job
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.model.schedule import ScheduleTerms
from shunter.model.submission import Receipt
from shunter.model.timing import Every
from shunter.model.worker import DeclaredSchedule, Handler
from unit.dispatch.conftest import Scene

ERROR = Failure(ErrorKind.EXCEPTION, "ValueError: no")


def test_a_job_that_failed_for_good_is_told_once_and_a_retried_one_is_not(scene: Scene) -> None:
    failed: list[Job] = []
    told = Dispatcher(
        scene.store,
        dispatcher_id="d-2",
        rules=scene.dispatcher.rules,
        now=scene.clock,
        jitter=lambda: 0.5,
        on_failed=failed.append,
    )
    scene.worker(at=told)
    scene.submit("j-1", at=told, retry=Retry(limit=1, delay=0.0))
    scene.report("w-1", Report("j-1", 1, error=ERROR), at=told)
    assert failed == []

    told.look_at([scene.job("j-1")])
    scene.turns(told)
    scene.report("w-1", Report("j-1", 2, error=ERROR), at=told)

    assert [(job.id, job.attempt, job.error) for job in failed] == [("j-1", 2, ERROR)]


def test_a_second_cancel_says_that_the_job_is_cancelled_already(scene: Scene) -> None:
    scene.submit("j-1")
    receipts: list[Receipt] = []
    for _ in range(2):
        scene.dispatcher.cancel(["j-1"], receipts.extend)
        scene.turns()

    first, second = receipts
    assert first == Receipt("j-1")
    assert second.field == "status"
    assert "it is cancelled already and can't be cancelled any more" in second.reason


def test_one_type_with_different_options_is_a_contradiction(scene: Scene) -> None:
    arrival = scene.arrival("w-1")
    first = replace(arrival.worker, handlers=(Handler("t", timeout=5.0), Handler("u")))
    scene.dispatcher.introduce(replace(arrival, worker=first))
    scene.turns()
    view = scene.dispatcher.view

    [(other, text)] = view.contradictions("w-2", [Handler("t", timeout=9.0), Handler("u")])

    assert other == "w-1"
    assert "type 't' with different options: timeout 9.0 and 5.0" in text
    assert list(view.contradictions("w-2", first.handlers)) == []
    assert list(view.contradictions("w-1", [Handler("t")])) == []
    later = replace(first.handlers[0], schedule=DeclaredSchedule(ScheduleTerms(timing=Every(60.0))))
    assert list(view.contradictions("w-2", [later])) == []
