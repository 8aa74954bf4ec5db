"""When a run began and ended, by the dispatcher's clock.

A worker says how long a job waited in it and how long its handler took, not when: so a clock that
is wrong, or stepped, does no harm. The two spans are laid from the moment at which the job was
sent. What a job spends on its way to the worker and back belongs to neither, and a run never ends
later than it is heard of. Pure: `now` is an argument. Rules: docs/spec/jobs.md, section 5.
"""

from __future__ import annotations

from shunter.model.job import Execution, Job

DOUBT_SECONDS = 60.0
"""Spans that are longer than the time since the job was sent, by so much, are not believed: the
clock by which it was sent may have been another dispatcher's."""


def run_times(
    run: Execution, waited: float | None, ran: float | None, *, now: float
) -> tuple[float | None, float]:
    """Return when a run that ended began and ended.

    Where its worker says nothing, or nothing that can be, it lasted from the sending until now.
    """
    given_at = run.sent
    if given_at is None:
        given_at = run.started
        if given_at is None:
            return None, now
    if waited is not None and ran is not None:
        ended = given_at + waited + ran
        if waited >= 0.0 and ran >= 0.0 and ended <= now + DOUBT_SECONDS:  # not so for NaN
            if ended > now:
                ended = now
            return ended - ran, ended
    return (given_at if run.started is None else run.started), now


def run_start(run: Execution, waited: float | None, *, now: float) -> float | None:
    """Return when a run that is going on began, if that is known."""
    given_at = run.given_at
    if run.started is not None or given_at is None:
        return run.started
    if waited is None or not 0.0 <= waited <= now - given_at + DOUBT_SECONDS:
        return None
    return min(now, given_at + waited)


def first_start(job: Job) -> float | None:
    """Return when a handler first began on a job; a long history has forgotten it."""
    if job.history and job.history[0].attempt != 1:
        return None
    starts = (past.started for past in job.history if past.started is not None)
    return next(starts, job.execution.started)
