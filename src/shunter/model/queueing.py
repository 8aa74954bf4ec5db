"""In which order waiting jobs are taken, and when somebody must look at a job again. Pure.

One number orders the queue: the time of creation, moved back by a fixed span for each step of
priority. Jobs of one priority leave first in, first out; a higher priority goes first; and
since a span is finite, nothing starves: a waiting job overtakes any newcomer in the end.
"""

from __future__ import annotations

from shunter.model.job import Job, Status

PRIORITY_SPAN_SECONDS = 3600
"""One step of priority is worth this much waiting."""

PRIORITY_LIMIT = 1000


def rank(job: Job) -> int:
    """Return the job's place in the queue of its type, in microseconds; lower goes first."""
    return round(job.created * 1e6) - job.priority * PRIORITY_SPAN_SECONDS * 1_000_000


def place(job: Job) -> str | None:
    """Return the place on a worker that this job occupies; no two jobs may have the same one."""
    run = job.execution
    if job.status is not Status.IN_PROGRESS or run.place is None:
        return None
    return f"{run.worker_id}/{run.place}"


def deadline(job: Job) -> float | None:
    """Return when a job that waits for a worker has waited in vain, or None where it may go on."""
    return job.place_by if job.status is Status.QUEUED else None


def alarm(job: Job) -> float | None:
    """Return when a sweep must look at this job, or None where nothing is due by time."""
    match job.status:
        case Status.QUEUED:
            return job.wait_until
        case Status.DISPATCHING:
            return job.dispatcher.expiry if job.dispatcher else None
        case Status.IN_PROGRESS:
            return job.execution.expiry
        case _:
            return job.callback.due if job.callback else None
