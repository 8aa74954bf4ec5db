"""When a run began and ended, from what its worker says."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from shunter.model import lifecycle
from shunter.model.job import ErrorKind, Execution, Failure, Job, PastAttempt, Status
from shunter.model.lifecycle import WorkerSlot
from shunter.model.retry import Retry
from shunter.model.run_times import first_start, run_start, run_times

SENT = Execution(worker_id="w", sent=100.0)


def running() -> Job:
    job = Job(id="j", type="t", created=99.0, updated=99.0, retry=Retry(limit=1))
    claimed = lifecycle.claimed(job, dispatcher_id="d", now=100.0)
    return lifecycle.started(claimed, WorkerSlot("w"), now=100.0)


def test_spans_are_laid_from_the_sending_and_not_from_the_hearing() -> None:
    assert run_times(SENT, 0.5, 2.0, now=110.0) == (100.5, 102.5)


def test_a_run_never_ends_after_it_is_heard_of_and_keeps_its_length() -> None:
    assert run_times(SENT, 0.5, 2.0, now=102.0) == (100.0, 102.0)
    assert run_times(SENT, 0.5, 2.0, now=71.0) == (69.0, 71.0)  # another dispatcher's clock


@pytest.mark.parametrize(
    ("waited", "ran"),
    [
        (None, None), (0.0, None), (None, 1.0), (-1.0, 1.0), (0.0, -1.0),
        (math.nan, 1.0), (0.0, math.nan), (0.0, math.inf), (0.0, 1e300), (75.0, 5.0),
    ],
)  # fmt: skip
def test_what_can_t_be_is_taken_for_nothing_said(waited: float | None, ran: float | None) -> None:
    assert run_times(SENT, waited, ran, now=110.0) == (100.0, 110.0)


def test_a_run_of_an_older_version_lasted_from_its_start() -> None:
    assert run_times(Execution(started=100.0), None, None, now=110.0) == (100.0, 110.0)
    assert run_times(Execution(), 1.0, 1.0, now=110.0) == (None, 110.0)


def test_progress_tells_when_a_run_began() -> None:
    assert run_start(SENT, 3.0, now=110.0) == 103.0
    assert run_start(SENT, 3.0, now=102.0) == 102.0
    assert run_start(SENT, None, now=110.0) is None
    assert run_start(SENT, math.inf, now=110.0) is None

    job = lifecycle.progressed(running(), 1, done=1, total=2, waited=3.0, now=110.0)

    assert (job.execution.sent, job.execution.started) == (100.0, 103.0)
    assert lifecycle.progressed(job, 1, done=2, total=2, now=120.0).execution.started == 103.0


def test_a_start_is_not_known_before_somebody_says_so() -> None:
    assert (running().execution.sent, running().execution.started) == (100.0, None)


def test_an_end_writes_all_three_times() -> None:
    run = lifecycle.completed(running(), 1, result=b"", waited=1.0, ran=4.0, now=110.0).execution

    assert (run.sent, run.started, run.ended) == (100.0, 101.0, 105.0)


def test_a_failed_run_is_remembered_with_its_own_times() -> None:
    failure = Failure(ErrorKind.EXCEPTION, "no")

    job = lifecycle.failed(running(), 1, failure, waited=1.0, ran=4.0, now=110.0, jitter=0.0)

    assert (job.history[0].started, job.history[0].ended) == (101.0, 105.0)
    assert (job.execution.sent, job.execution.started) == (None, None)
    assert job.wait_until is not None
    assert job.wait_until > 110.0, "a retry waits from when the dispatcher heard of the failure"


def test_a_lost_run_is_remembered_with_its_own_times() -> None:
    job = lifecycle.lost(
        running(), 1, "died", waited=1.0, ran=4.0, now=110.0, jitter=0.0, max_losses=5
    )

    assert (job.history[0].started, job.history[0].ended) == (101.0, 105.0)


def test_a_run_that_was_given_back_has_not_begun() -> None:
    job = lifecycle.returned(running(), 1, "resigned", now=110.0)

    assert job.history[0].started is None


def test_the_first_start_is_that_of_the_first_run_that_began() -> None:
    returned = PastAttempt(1, "w", None, 2.0, "returned")
    failed = PastAttempt(2, "w", 3.0, 4.0, "retried")
    job = Job(id="j", type="t", created=0.0, updated=0.0, status=Status.COMPLETED, attempt=3)
    job = replace(job, execution=Execution(started=7.0))

    assert first_start(job) == 7.0
    assert first_start(replace(job, history=(returned,))) == 7.0
    assert first_start(replace(job, history=(returned, failed))) == 3.0
    assert first_start(replace(job, history=(failed,))) is None
