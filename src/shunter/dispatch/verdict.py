"""What the end of a run makes of its job. Pure.

A worker's word is believed on its own run, and on nothing that would break arithmetic or the
wire: a result must be msgpack, a number finite, a retry policy within limits.
"""

from __future__ import annotations

import math

from shunter.dispatch.rules import Rules
from shunter.model import lifecycle
from shunter.model.job import ErrorKind, Failure, Job
from shunter.model.limits import option_faults
from shunter.model.retry import Retry
from shunter.wire.frames import is_document
from shunter.wire.messages import Advance, Report

NIL = b"\xc0"
"""The result of a job whose worker sent none: nil, in msgpack."""


def ended(job: Job, report: Report, rules: Rules, *, now: float, spread: float) -> Job:
    """Return the job after its run ended as reported, or raise a JobError."""
    error = report.error
    if error is None:
        result = report.result if report.result is not None else NIL
        if is_document(result):
            return lifecycle.completed(job, report.attempt, result=result, log=report.log, now=now)
        error = Failure(ErrorKind.REFUSED, "its worker sent a result that is not msgpack")
    if error.kind is ErrorKind.LOST:
        return lifecycle.lost(
            job,
            report.attempt,
            error.message,
            now=now,
            spread=spread,
            max_losses=rules.max_losses,
            log=report.log,
        )
    return lifecycle.failed(
        job,
        report.attempt,
        error,
        now=now,
        spread=spread,
        log=report.log,
        retry=_sensible(report.retry),
    )


def is_sensible(advance: Advance) -> bool:
    """Tell whether a report of progress is made of numbers."""
    return math.isfinite(advance.done) and math.isfinite(advance.total or 0.0)


def _sensible(retry: Retry | None) -> Retry | None:
    """Drop a retry policy that is out of bounds."""
    faults = option_faults(priority=None, timeout=None, retry=retry)
    return None if next(faults, None) else retry
