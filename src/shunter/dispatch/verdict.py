"""What the end of a run makes of its job. Pure.

A worker's word is believed on its own run, and on nothing that would break arithmetic or the
wire: a result must be msgpack, a number finite, a retry policy within limits.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from msgspec.structs import replace

from shunter.dispatch.rules import Rules
from shunter.model import lifecycle
from shunter.model.document import DOCUMENT_BYTES, NIL, is_document
from shunter.model.job import ErrorKind, Failure, Job, Progress, Status
from shunter.model.limits import MAX_NOTE_BYTES, MAX_SECONDS, option_faults
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry


def ended(job: Job, report: Report, rules: Rules, *, now: float, jitter: float) -> Job:
    """Return the job after its run ended as reported, or raise a JobError."""
    error = report.error
    if error is None:
        result = report.result if report.result is not None else NIL
        limit = rules.intake.max_payload_bytes
        if is_document(result) and len(result) <= limit + DOCUMENT_BYTES:
            return lifecycle.completed(
                job,
                report.attempt,
                result=result,
                log=report.log,
                waited=report.waited,
                ran=report.ran,
                now=now,
            )
        message = f"its worker sent a result that is not msgpack of at most {limit:,} bytes"
        error = Failure(ErrorKind.REFUSED, message)
    if error.kind is ErrorKind.LOST:
        return lifecycle.lost(
            job,
            report.attempt,
            error.message,
            now=now,
            jitter=jitter,
            max_losses=rules.max_losses,
            log=report.log,
            waited=report.waited,
            ran=report.ran,
        )
    if error.kind is ErrorKind.SNOOZED:
        if error.wait is not None and 0 <= error.wait <= MAX_SECONDS:
            return lifecycle.snoozed(
                job,
                report.attempt,
                error,
                now=now,
                log=report.log,
                waited=report.waited,
                ran=report.ran,
            )
        message = (
            f"its worker put it off for {error.wait} s; send seconds from 0 to {MAX_SECONDS:.0f}"
        )
        error = Failure(ErrorKind.REFUSED, message)
    return lifecycle.failed(
        job,
        report.attempt,
        error,
        now=now,
        jitter=jitter,
        log=report.log,
        retry=_sensible(report.retry),
        waited=report.waited,
        ran=report.ran,
    )


def is_sensible(advance: Advance) -> bool:
    """True if a report of progress is made of numbers, and not too long."""
    is_finite = math.isfinite(advance.done) and math.isfinite(advance.total or 0.0)
    return is_finite and len(advance.note) <= MAX_NOTE_BYTES


def _sensible(retry: Retry | None) -> Retry | None:
    """Drop a retry policy that is out of bounds."""
    faults = option_faults(priority=None, timeout=None, retry=retry)
    return None if next(faults, None) else retry


def with_progress(job: Job, last: Advance | None, *, now: float) -> Job:
    """Return the job with the progress that was reported just before its run ended."""
    if last is None or not is_sensible(last):
        return job
    return replace(job, progress=Progress(last.done, last.total, now, last.note))


def is_run_of(job: Job | None, worker_id: str, held: Held) -> TypeGuard[Job]:
    """True if this is the job's current run, on this worker."""
    return (
        job is not None
        and job.status is Status.IN_PROGRESS
        and job.execution.worker_id == worker_id
        and job.attempt == held.attempt
    )
