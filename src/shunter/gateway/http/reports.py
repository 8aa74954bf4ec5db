"""Whether a report that came by HTTP may count, and whether it did. Pure.

The dispatcher decides; it tells workers nothing but "taken". So the job is looked at before and
after: what can't count is refused at once, and what the commit made of the run is compared with
what was reported.
"""

from __future__ import annotations

from shunter.dispatch.verdict import is_run_of
from shunter.errors import JobFinal, LeaseLost, StaleAttempt
from shunter.model import lifecycle
from shunter.model.job import ErrorKind, Job, PastAttempt, Status
from shunter.model.lifecycle import Event
from shunter.model.report import Held, Report

_ENDS = {
    True: {Event.LOST, Event.EXHAUSTED, Event.CANCELLED},
    False: {Event.RETRIED, Event.FAILED, Event.CANCELLED},
}
"""What a failed run may have become in the job's history, by whether its process was lost."""


def check(job: Job, worker_id: str, report: Report) -> None:
    """Raise a JobError where the report can't count on the job as it is."""
    if job.status.is_final:
        raise JobFinal(job.id, job.status.word, Event.COMPLETED)
    lifecycle.fence(job, report.attempt)
    lifecycle.step(job, Event.COMPLETED)
    lifecycle.check_holder(job, worker_id)


def is_going_on(job: Job, worker_id: str, report: Report) -> bool:
    """True if the run that was reported on is still the job's current one."""
    return is_run_of(job, worker_id, Held(job.id, report.attempt))


def check_outcome(job: Job, worker_id: str, report: Report) -> None:
    """Raise a JobError unless the run ended as reported."""
    if report.error is None:
        is_this = job.attempt == report.attempt and job.execution.worker_id == worker_id
        if is_this and job.status is Status.COMPLETED and job.result == report.result:
            return
    else:
        ends = _ENDS[report.error.kind is ErrorKind.LOST]
        if any(_is_end(past, worker_id, report) and past.outcome in ends for past in job.history):
            return
    if job.status.is_final:
        raise JobFinal(job.id, job.status.word, Event.COMPLETED)
    if job.attempt != report.attempt:
        raise StaleAttempt(job.id, report.attempt, job.attempt)
    raise LeaseLost(job.id, worker_id, job.execution.worker_id or "nobody")


def _is_end(past: PastAttempt, worker_id: str, report: Report) -> bool:
    return past.attempt == report.attempt and past.worker_id == worker_id
