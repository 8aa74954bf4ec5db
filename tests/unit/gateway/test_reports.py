"""Whether a report by HTTP may count, and whether it did."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shunter.errors import InvalidTransition, JobError, JobFinal, LeaseLost, StaleAttempt
from shunter.gateway.http import reports
from shunter.model import lifecycle
from shunter.model.job import ErrorKind, Execution, Failure, Job, Status
from shunter.model.report import Report
from shunter.model.retry import Retry

RUNNING = Job(
    id="j",
    type="t",
    created=0.0,
    updated=1.0,
    status=Status.IN_PROGRESS,
    attempt=2,
    execution=Execution("w-1", started=1.0),
)
DONE = Report("j", 2, result=b"\x01")
BROKEN = Report("j", 2, error=Failure(ErrorKind.EXCEPTION, "broken"))
GONE = Report("j", 2, error=Failure(ErrorKind.LOST, "gone"))

completed = lifecycle.completed(RUNNING, 2, result=b"\x01", now=2.0)
failed = lifecycle.failed(RUNNING, 2, Failure(ErrorKind.EXCEPTION, "x"), now=2.0, jitter=0.0)
retried = lifecycle.failed(
    replace(RUNNING, retry=Retry(limit=1)),
    2,
    Failure(ErrorKind.EXCEPTION, "x"),
    now=2.0,
    jitter=0.0,
)
lost = lifecycle.lost(RUNNING, 2, "gone", now=2.0, jitter=0.0, max_losses=5)
again = replace(retried, status=Status.IN_PROGRESS, attempt=3, execution=Execution("w-2"))


def test_the_holder_may_report_on_its_run() -> None:
    reports.check(RUNNING, "w-1", DONE)


@pytest.mark.parametrize(
    ("job", "worker_id", "attempt", "error"),
    [
        (RUNNING, "w-1", 1, StaleAttempt),
        (RUNNING, "w-1", 3, StaleAttempt),
        (RUNNING, "w-2", 2, LeaseLost),
        (completed, "w-1", 2, JobFinal),
        (failed, "w-1", 1, JobFinal),
        (retried, "w-1", 2, InvalidTransition),
        (lost, "w-1", 1, StaleAttempt),
    ],
)
def test_others_may_not(job: Job, worker_id: str, attempt: int, error: type[JobError]) -> None:
    with pytest.raises(error):
        reports.check(job, worker_id, replace(DONE, attempt=attempt))


@pytest.mark.parametrize(
    ("job", "report"),
    [(completed, DONE), (failed, BROKEN), (retried, BROKEN), (again, BROKEN), (lost, GONE)],
)
def test_a_run_that_ended_as_reported_is_recognised(job: Job, report: Report) -> None:
    assert reports.is_going_on(RUNNING, "w-1", report)
    assert not reports.is_going_on(job, "w-1", report)
    reports.check_outcome(job, "w-1", report)


@pytest.mark.parametrize(
    ("job", "report", "error"),
    [
        (completed, replace(DONE, result=b"\x02"), JobFinal),
        (completed, BROKEN, JobFinal),
        (failed, DONE, JobFinal),
        (lost, BROKEN, LeaseLost),
        (retried, GONE, LeaseLost),
        (again, DONE, StaleAttempt),
    ],
)
def test_a_run_that_ended_otherwise_is_a_conflict(
    job: Job, report: Report, error: type[JobError]
) -> None:
    with pytest.raises(error):
        reports.check_outcome(job, "w-1", report)
