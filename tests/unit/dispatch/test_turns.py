"""What a dispatcher does with what arrives, turn by turn, without sockets or waiting."""

from __future__ import annotations

from typing import Any

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import UnattributedResult
from shunter.errors import JobNotFound
from shunter.model.job import ErrorKind, Failure, Status
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.scope import JobScope
from shunter.model.submission import Receipt, Submission
from shunter.model.worker import WorkerKind
from shunter.testing.finish import finish

RESULT = b"\x2a"


def done(job_id: str, attempt: int = 1) -> Report:
    return Report(job_id, attempt, result=RESULT)


def test_a_job_goes_straight_to_a_free_worker_in_one_write(scene: Any) -> None:
    scene.worker()

    assert scene.submit("j-1") == [Receipt("j-1")]

    assert scene.runs() == [("w-1", "j-1")]
    assert scene.job("j-1").status is Status.IN_PROGRESS
    assert scene.dispatcher.counters["jobs_claimed"] == 0


def test_jobs_wait_when_no_worker_is_there_and_leave_in_order(scene: Any) -> None:
    scene.submit("j-1", "j-2", "j-3")
    assert scene.runs() == []

    scene.worker(slots=2)
    scene.report("w-1", done("j-1"))

    assert scene.runs() == [("w-1", "j-1"), ("w-1", "j-2"), ("w-1", "j-3")]


def test_a_waiting_job_is_claimed_and_started_by_one_write(scene: Any) -> None:
    scene.submit("j-1")
    waiting = scene.job("j-1")

    scene.worker()

    job = scene.job("j-1")
    assert job.revision == waiting.revision + 1
    assert (job.status, job.dispatcher.id) == (Status.IN_PROGRESS, "d-1")


def test_a_new_job_never_overtakes_those_that_wait(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1", "j-2")
    scene.submit("j-3")

    for job_id in ("j-1", "j-2", "j-3"):
        scene.report("w-1", done(job_id))

    assert [job for _, job in scene.runs()] == ["j-1", "j-2", "j-3"]


def test_a_higher_priority_goes_first(scene: Any) -> None:
    scene.submit("low")
    scene.submit("high", priority=5)

    scene.worker()

    assert scene.runs() == [("w-1", "high")]


def test_the_result_is_delivered_to_who_asked_and_the_report_is_confirmed(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")

    scene.report("w-1", done("j-1"))

    assert [(job.id, job.result) for job in scene.said.delivered] == [("j-1", RESULT)]
    assert scene.said.taken == [("w-1", 1)]


def test_a_result_goes_out_before_its_report_is_confirmed_unless_a_job_follows(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1", "j-2")
    scene.said.order.clear()

    scene.report("w-1", done("j-1"))
    scene.report("w-1", done("j-2"))

    assert scene.said.order == ["taken", "jobs", "results", "results", "taken soon"]


def test_a_second_report_on_the_same_run_is_refused_and_changes_nothing(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")
    scene.report("w-1", done("j-1"))

    scene.report("w-1", Report("j-1", 1, result=b"\x07"))

    assert scene.job("j-1").result == RESULT
    assert [type(error).__name__ for error in scene.refused] == ["JobFinal"]
    assert len(scene.said.delivered) == 1


def test_a_worker_that_claims_anothers_job_is_refused(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.worker("w-2")

    scene.report("w-2", done("j-1"))

    assert scene.job("j-1").status is Status.IN_PROGRESS
    assert [type(error).__name__ for error in scene.refused] == ["LeaseLost"]


def test_a_report_on_a_job_nobody_knows_is_refused(scene: Any) -> None:
    scene.worker()

    scene.report("w-1", done("ghost"))

    assert [type(error).__name__ for error in scene.refused] == ["JobNotFound"]


def test_a_submission_that_is_repeated_is_the_same_job(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")

    assert scene.submit("j-1") == [Receipt("j-1")]

    assert scene.runs() == [("w-1", "j-1")]
    scene.report("w-1", done("j-1"))
    assert scene.submit("j-1") == [Receipt("j-1")]
    assert [job.id for job in scene.said.delivered] == ["j-1", "j-1"]


def test_one_bad_submission_does_not_harm_the_others_of_its_batch(scene: Any) -> None:
    good, bad, also_good = scene.submit("j-1", "not a name", "j-2")

    assert (good, also_good) == (Receipt("j-1"), Receipt("j-2"))
    assert bad.field == "id"


def test_a_failed_run_is_tried_again_when_its_back_off_is_over(scene: Any) -> None:

    scene.worker()
    scene.submit("j-1", retry=Retry(limit=1, delay=10.0, jitter=0.0))
    scene.report("w-1", Report("j-1", 1, error=Failure(ErrorKind.EXCEPTION, "no")))
    assert scene.job("j-1").wait_until == scene.clock() + 10.0

    scene.clock.advance(10.0)
    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()

    assert scene.runs() == [("w-1", "j-1"), ("w-1", "j-1")]
    assert scene.job("j-1").attempt == 2


def test_a_stale_attempt_never_writes(scene: Any) -> None:
    scene.worker("w-1")
    scene.submit("j-1")
    scene.dispatcher.give_back("w-1", [Held("j-1", 1)], "gone", blame=True)
    scene.turns()
    assert scene.job("j-1").attempt == 2

    scene.report("w-1", done("j-1", attempt=1))

    assert scene.job("j-1").status is Status.IN_PROGRESS
    assert [type(error).__name__ for error in scene.refused] == ["StaleAttempt"]


def test_a_queued_job_is_cancelled_at_once_and_never_starts(scene: Any) -> None:
    scene.submit("j-1")
    receipts: list[Receipt] = []

    scene.dispatcher.cancel(["j-1", "ghost"], receipts.extend)
    scene.turns()
    scene.worker()

    assert scene.job("j-1").status is Status.CANCELLED
    assert receipts[0] == Receipt("j-1")
    assert "not found" in receipts[1].reason
    assert scene.runs() == []


def test_a_job_out_of_scope_is_cancelled_no_more_than_one_that_is_not_there(
    scene: Any,
) -> None:
    scene.submit("j-1")
    receipts: list[Receipt] = []

    scene.dispatcher.cancel(["j-1"], receipts.extend, JobScope("team"))
    scene.turns()

    assert receipts == [Receipt("j-1", "id", str(JobNotFound("j-1")))]
    assert scene.job("j-1").status is Status.QUEUED
    scene.dispatcher.cancel(["j-1"], lambda _: None, JobScope(""))
    scene.turns()
    assert scene.job("j-1").status is Status.CANCELLED


def test_a_running_job_is_cancelled_when_its_worker_says_how_it_ended(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")
    scene.dispatcher.cancel(["j-1"], lambda receipts: None)
    scene.turns()
    assert scene.said.cancels == [("w-1", Held("j-1", 1))]
    assert scene.job("j-1").status is Status.IN_PROGRESS

    ended = Failure(ErrorKind.CANCELLED, "stopped", ended_by="SIGTERM")
    scene.report("w-1", Report("j-1", 1, error=ended))

    job = scene.job("j-1")
    assert (job.status, job.error.ended_by) == (Status.CANCELLED, "SIGTERM")


def test_a_job_on_a_plain_worker_is_cancelled_at_once(scene: Any) -> None:
    scene.worker("plain:aa", kind=WorkerKind.PLAIN)
    scene.submit("j-1")

    scene.dispatcher.cancel(["j-1"], lambda receipts: None)
    scene.turns()

    assert scene.job("j-1").status is Status.CANCELLED


def test_progress_is_kept_and_stale_progress_is_not(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")

    scene.dispatcher.advance("w-1", [Advance("j-1", 1, 3.0, 10.0)])
    scene.turns()
    scene.dispatcher.advance("w-1", [Advance("j-1", 7, 9.0, 10.0)])
    scene.turns()

    assert scene.job("j-1").progress.done == 3.0


def test_a_silent_plain_worker_loses_its_job_to_another(scene: Any) -> None:
    scene.worker("plain:aa", kind=WorkerKind.PLAIN)
    scene.submit("j-1")
    scene.worker("plain:bb", kind=WorkerKind.PLAIN)

    scene.clock.advance(60.0)
    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()

    assert scene.said.cancels == [("plain:aa", Held("j-1", 1))]
    assert scene.runs()[-1][1] == "j-1"
    assert scene.job("j-1").attempt == 2


def test_an_unasked_result_is_attributed_by_what_the_store_says(scene: Any) -> None:
    """A plain worker outlives the dispatcher that gave it a job, and answers the next one."""
    scene.worker("plain:aa", kind=WorkerKind.PLAIN)
    scene.submit("j-1")
    successor = scene.another_dispatcher("d-2")

    successor.report_unattributed(UnattributedResult("plain:aa", RESULT))
    scene.turns(successor)
    successor.report_unattributed(UnattributedResult("plain:aa", RESULT))
    scene.turns(successor)

    assert scene.job("j-1").status is Status.COMPLETED
    assert len(scene.refused) == 1


def test_a_cooldown_lies_between_claim_and_start(scene: Any) -> None:
    patient = scene.another_dispatcher("d-2", cooldown=0.5)
    scene.submit("j-1")
    scene.worker(at=patient)
    assert scene.job("j-1").status is Status.DISPATCHING

    scene.clock.advance(0.5)
    scene.turns(patient)

    assert scene.job("j-1").status is Status.IN_PROGRESS


def test_a_claim_whose_dispatcher_died_goes_back_to_the_queue(scene: Any) -> None:
    dying = scene.another_dispatcher("d-2", cooldown=100.0)
    scene.submit("j-1")
    scene.worker("w-9", at=dying)
    assert scene.job("j-1").status is Status.DISPATCHING

    scene.worker("w-1")
    for seconds in (106.0, 60.0):  # for so long it is watched
        scene.clock.advance(seconds)
        finish(sweep.ring_alarms(scene.dispatcher))
        scene.turns()

    assert scene.runs() == [("w-1", "j-1")]


def test_two_dispatchers_never_start_the_same_job(scene: Any) -> None:
    other = scene.another_dispatcher("d-2")
    scene.submit(*(f"j-{n}" for n in range(20)))

    scene.worker("w-1", slots=15)
    scene.worker("w-2", slots=15, at=other)

    assert sorted(job for _, job in scene.runs()) == sorted(f"j-{n}" for n in range(20))


def test_a_job_that_no_worker_took_in_time_fails_and_is_never_sent(scene: Any) -> None:
    scene.submit("a", place_within=5.0)
    scene.clock.advance(4.9)
    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()
    assert scene.job("a").status is Status.QUEUED

    scene.clock.advance(0.1)
    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()
    scene.worker("w-1", "t")

    failed = scene.job("a")
    assert (failed.status, failed.error.kind) == (Status.FAILED, "unplaced")
    assert failed.error.message == "no worker took it within 5 s"
    assert scene.runs() == []
    assert [job.id for job in scene.said.delivered] == ["a"]


def test_a_job_whose_worker_was_lost_has_its_time_for_another_again(scene: Any) -> None:
    scene.worker("w-1", "t")
    scene.submit("a", place_within=5.0)
    scene.clock.advance(60.0)
    scene.dispatcher.leave("w-1")
    scene.dispatcher.give_back("w-1", [Held("a", 1)], "gone", blame=True)
    scene.turns()
    assert scene.job("a").place_by == scene.clock() + 5.0

    finish(sweep.give_up_waiting(scene.dispatcher))
    scene.turns()
    assert scene.job("a").status is Status.QUEUED


def test_one_type_can_not_keep_another_waiting(scene: Any) -> None:
    scene.worker("w-1", "flood", "late")
    scene.submit(*(f"f-{n}" for n in range(20)), type="flood")
    scene.clock.advance(1.0)
    scene.submit("l-1", "l-2", type="late")

    for _ in range(5):
        _, job = scene.said.jobs[-1]
        scene.report("w-1", Report(job.id, job.attempt, result=b"\x01"))

    ids = [job for _, job in scene.runs()]
    assert ids == ["f-0", "f-1", "l-1", "f-2", "l-2", "f-3"]


def test_how_long_a_job_waited_and_ran_is_counted_when_its_run_has_ended(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1")
    sent = scene.clock()
    timings = scene.dispatcher.view.timings
    assert timings.dispatch == {}

    scene.clock.advance(10.0)
    scene.report("w-1", Report("j-1", 1, result=RESULT, waited=2.0, ran=5.0))

    run = scene.job("j-1").execution
    assert (run.sent, run.started, run.ended) == (sent, sent + 2.0, sent + 7.0)
    (waited,), (ran,) = timings.dispatch.values(), timings.run.values()
    assert (waited.total, ran.total) == (2.0, 5.0)


def test_a_job_that_is_tried_again_has_waited_once(scene: Any) -> None:
    scene.worker()
    scene.submit("j-1", retry=Retry(limit=1, delay=1.0, jitter=0.0))
    failure = Failure(ErrorKind.EXCEPTION, "no")
    scene.report("w-1", Report("j-1", 1, error=failure, waited=2.0, ran=0.0))
    scene.clock.advance(5.0)
    finish(sweep.ring_alarms(scene.dispatcher))
    scene.turns()

    scene.report("w-1", Report("j-1", 2, result=RESULT, waited=0.0, ran=0.0))

    (waited,) = scene.dispatcher.view.timings.dispatch.values()
    assert scene.job("j-1").status is Status.COMPLETED
    assert sum(waited.counts) == 1


def test_a_job_counts_as_sent_when_its_start_is_written_not_when_it_was_planned(
    scene: Any, monkeypatch: Any
) -> None:
    commit = scene.store.commit

    async def slowly(batch: Any) -> Any:
        scene.clock.advance(0.5)
        return await commit(batch)

    scene.worker()
    planned = scene.clock()
    monkeypatch.setattr(scene.store, "commit", slowly)
    scene.submit("j-1")
    assert scene.job("j-1").execution.sent == planned
    monkeypatch.undo()

    scene.clock.advance(1.0)
    scene.report("w-1", Report("j-1", 1, result=RESULT, waited=0.0, ran=0.25))

    run = scene.job("j-1").execution
    assert (run.sent, run.started, run.ended) == (planned + 0.5, planned + 0.5, planned + 0.75)


def test_a_start_that_was_written_late_counts_from_then_also_when_its_record_is_read_again(
    scene: Any, monkeypatch: Any
) -> None:
    """Else a READY from before it was sent would take it for lost."""
    commit = scene.store.commit

    async def slowly(batch: Any) -> Any:
        scene.clock.advance(7.0)
        return await commit(batch)

    scene.worker()
    monkeypatch.setattr(scene.store, "commit", slowly)
    scene.submit("j-1")
    monkeypatch.undo()
    written = scene.clock()

    state, record = scene.dispatcher.state, scene.job("j-1")
    state.adopt(record, now=written + 1.0)

    assert record.execution.sent == written - 7.0
    assert state.known_since(state.running["j-1"]) == written


def test_submissions_leave_the_room_of_a_turn_to_reports(scene: Any) -> None:
    at = scene.another_dispatcher("d-2", intake_limit=4)
    scene.worker(slots=3, at=at)
    scene.submit("a", "b", "c", at=at)
    for pair in ("d e", "f g", "h i"):
        at.submit([Submission(job_id, "t", b"\x01") for job_id in pair.split()], len)
    at.report("w-1", [done("a"), done("b")], batch=1)

    finish(at.turn())
    assert _stored(scene) == set("abcde"), "two reports leave room for two"

    at.report("w-1", [done(job_id) for job_id in "cde"], batch=2)
    finish(at.turn())
    assert _stored(scene) == set("abcdefg"), "one lot is taken, however many reports there are"

    finish(at.turn())
    assert _stored(scene) == set("abcdefghi")


def test_a_turn_takes_no_more_submissions_than_one_commit_should_hold(scene: Any) -> None:
    at = scene.another_dispatcher("d-2", intake_limit=5)
    for pair in ("a b", "c d", "e f"):
        at.submit([Submission(job_id, "t", b"\x01") for job_id in pair.split()], len)

    finish(at.turn())

    assert _stored(scene) == set("abcd"), "the third lot would be too much"


def _stored(scene: Any) -> set[str]:
    return {job.id for job in finish(scene.store.get(list("abcdefghi"))) if job is not None}
