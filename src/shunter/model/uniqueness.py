"""Which new job meets an earlier one, and what that means for it. Pure.

An id is unique in the whole store, a unique key in its namespace. Whoever sends a job twice gets
the one that is there; whoever sends another job under its name is refused; and of a job of another
namespace nobody learns more than that the id is taken. Stores find the earlier job; what is
answered is decided here.
"""

from __future__ import annotations

from shunter.errors import UniqueKeyTaken
from shunter.model.job import Job

Answer = Job | UniqueKeyTaken

NamedKey = tuple[str, str]


def named_key(job: Job) -> NamedKey | None:
    """Return what no two jobs may share: the unique key with its namespace."""
    return None if job.unique_key is None else (job.namespace, job.unique_key)


def answer_to(job: Job, earlier: Job) -> Answer:
    """Return what is said to a new job that has the id or the key of an earlier one."""
    field, value = ("id", job.id) if earlier.id == job.id else ("unique_key", job.unique_key or "")
    if earlier.namespace != job.namespace:
        return UniqueKeyTaken(job.id, field, value)
    if (earlier.type, earlier.payload) != (job.type, job.payload):
        return UniqueKeyTaken(job.id, field, value, earlier.id)
    return earlier
