"""Where the time of jobs went: each part by its name, and all of them together the whole."""

from __future__ import annotations

from typing import Any

import pytest

from shunter.model.explanation import JobStanding, SpanKind
from shunter.model.job import ErrorKind, Execution, Failure, Job, PastAttempt, Status, When
from shunter.model.waits import WaitKind, Waits
from shunter.why.past import explain_ended, explain_running

T = 1_700_000_000.0


def a_job(**changes: Any) -> Job:
    run = Execution(worker_id="w-1", sent=T + 10, started=T + 11, ended=T + 15)
    fields: dict[str, Any] = {
        "created": T, "updated": T + 15, "attempt": 1, "status": Status.COMPLETED, "execution": run,
    }  # fmt: skip
    return Job(id="j", type="t", **(fields | changes))


def parts(job: Job, awaited_until: float | None = None) -> dict[SpanKind, float]:
    said = explain_ended(job, awaited_until)
    spans = {span.kind: round(span.seconds, 6) for span in said.spans}
    ended = job.execution.ended or job.updated
    assert sum(spans.values()) == pytest.approx(ended - job.created)
    return spans


def test_a_job_that_ran_once_was_queued_sent_and_in_its_handler() -> None:
    spans = parts(a_job())

    assert spans == {SpanKind.QUEUED: 10, SpanKind.SENT: 1, SpanKind.HANDLER: 4}
    said = explain_ended(a_job())
    assert said.standing is JobStanding.ENDED
    assert said.text == (
        "it completed 15 s after it was created; for 10 s of that it was in the queue"
    )


def test_what_it_waited_for_its_time_is_no_queueing() -> None:
    spans = parts(a_job(not_before=T + 8))

    assert spans[SpanKind.DELAYED] == 8
    assert spans[SpanKind.QUEUED] == 2


def test_what_it_waited_for_other_jobs_is_no_queueing() -> None:
    assert parts(a_job(when=When.ALL_OK), T + 7)[SpanKind.PARKED] == 7


def test_runs_before_the_last_and_the_waits_between_them_are_told_apart() -> None:
    history = (
        PastAttempt(1, "w-1", T + 1, T + 3, "retried", "oops"),
        PastAttempt(2, "w-2", None, T + 5, "lost", "gone"),
    )
    spans = parts(a_job(attempt=3, history=history))

    assert spans == {
        SpanKind.QUEUED: 1,
        SpanKind.EARLIER_RUNS: 2,
        SpanKind.BETWEEN_RUNS: 7,
        SpanKind.SENT: 1,
        SpanKind.HANDLER: 4,
    }


def test_the_last_run_of_a_failed_job_is_its_handler_though_it_is_in_the_history_too() -> None:
    history = (PastAttempt(1, "w-1", T + 11, T + 15, "failed", "oops"),)
    failed = a_job(status=Status.FAILED, error=Failure("exception", "oops"), history=history)

    assert parts(failed)[SpanKind.HANDLER] == 4


@pytest.mark.parametrize(
    ("waits", "awaited_until"),
    [
        (Waits("s", WaitKind.SLEEP, T + 2, until=T + 8), None),
        (Waits("s", WaitKind.CHILDREN, T + 2, children=3), T + 8),
    ],
)
def test_a_job_that_was_parked_says_for_how_long(waits: Waits, awaited_until: float) -> None:
    spans = parts(a_job(attempt=2, waits=waits), awaited_until)

    assert spans[SpanKind.PARKED] == 6
    assert spans[SpanKind.EARLIER_RUNS] == 2
    assert spans[SpanKind.QUEUED] == 2


def test_a_job_that_never_ran_was_in_the_queue_all_the_time() -> None:
    cancelled = a_job(status=Status.CANCELLED, attempt=0, execution=Execution(ended=T + 15))

    assert parts(cancelled) == {SpanKind.QUEUED: 15}


def test_a_job_that_runs_says_who_has_it_since_when() -> None:
    run = Execution(worker_id="w-1", sent=T + 10, started=T + 11)
    said = explain_running(a_job(status=Status.IN_PROGRESS, execution=run), now=T + 20)

    assert said.standing is JobStanding.RUNNING
    assert said.text == "worker w-1 has run it for 9.0 s, as its run 1"
    assert said.holder is not None
    assert (said.holder.worker_id, said.holder.since) == ("w-1", T + 10)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("its parent p did not complete", "was cancelled (its parent p did not complete) 15 s"),
        ("cancelled on request; it ended with Terminated", "was cancelled on request 15 s after"),
    ],
)
def test_of_a_cancelled_job_it_says_by_whom_or_for_what(message: str, said: str) -> None:
    error = Failure(ErrorKind.CANCELLED, message)

    assert said in explain_ended(a_job(status=Status.CANCELLED, error=error)).text
