"""In which order waiting jobs are taken, and when somebody must look at a job again. Pure.

One number orders the queue: the time of creation, moved back by a fixed span for each step of
priority. Jobs of one priority leave first in, first out; a higher priority goes first; and
since a span is finite, nothing starves: a waiting job overtakes any newcomer in the end.
Between types of one priority a claim is fair: each gets a turn, however many jobs another has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.model.job_limits import place_text, total_text

PRIORITY_SPAN_SECONDS = 3600
"""One step of priority is worth this much waiting."""

PRIORITY_LIMIT = 1000

UNDER_WAY = frozenset({Status.DISPATCHING, Status.IN_PROGRESS})
"""Where a job stands that occupies a place under the limits of its type."""


def rank(job: Job) -> int:
    """Return the job's place in the queue of its type, in microseconds; lower goes first."""
    return round(job.created * 1e6) - job.priority * PRIORITY_SPAN_SECONDS * 1_000_000


class Head(Struct, frozen=True):
    """The first job in the queue of a type; `seq` tells it from others of its rank."""

    type: str
    rank: int
    seq: int
    priority: int


def favoured(heads: Iterable[Head], types: Sequence[str]) -> list[Head]:
    """Return whose turn it is before all others, in the order in which a claim names types.

    These are the first jobs of all types, as far as they have the priority of the very first.
    """
    found = sorted(heads, key=lambda head: (head.rank, head.seq))
    mine = {head.type: head for head in found if head.priority == found[0].priority}
    return [mine[kind] for kind in dict.fromkeys(types) if kind in mine]


def place(job: Job) -> str | None:
    """Return the place on a worker that this job occupies; no two jobs may have the same one."""
    run = job.execution
    if job.status is not Status.IN_PROGRESS or run.place is None:
        return None
    return f"{run.worker_id}/{run.place}"


def limit_place(job: Job) -> str | None:
    """Return the place under its key's limit that this job occupies; no two may have the same."""
    number = job.execution.limit_place
    if number is None or job.status not in UNDER_WAY:
        return None
    return place_text(job.type, job.lane or "", number)


def total_place(job: Job) -> str | None:
    """Return the place under its type's limit that this job occupies; no two may have the same."""
    number = job.execution.total_place
    if number is None or job.status not in UNDER_WAY:
        return None
    return total_text(job.type, number)


def deadline(job: Job) -> float | None:
    """Return when a job that waits for a worker has waited in vain, or None where it may go on."""
    return job.place_by if job.status is Status.QUEUED else None


def is_ready(job: Job) -> bool:
    """True if the job is in the queue and may be claimed now."""
    return job.status is Status.QUEUED and job.wait_until is None


AT_ONCE = 0.0
"""The alarm of an ended job whose dependents do not know yet: earlier than any other."""


def alarm(job: Job) -> float | None:
    """Return when a sweep must look at this job, or None where nothing is due by time."""
    match job.status:
        case Status.QUEUED | Status.WAITING:
            return job.wait_until
        case Status.DISPATCHING:
            return job.dispatcher.expiry if job.dispatcher else None
        case Status.IN_PROGRESS:
            return job.execution.expiry
        case _:
            if job.dependents:
                return AT_ONCE
            return job.callback.due if job.callback else None
