"""Reads how the parents of claimed jobs ended, so that it goes to the workers with them."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.model.job import Job
from shunter.model.parents import MAX_PARENT_BYTES, ParentRun, parents_document, run_of
from shunter.store.port import Committed, Store

PARENTS_AT_ONCE = 100


def has_children(committed: Committed) -> bool:
    """True if a job was claimed that has waited for others."""
    return any(job.when is not None for jobs in committed.claimed for job in jobs)


async def with_parents(store: Store, committed: Committed) -> Committed:
    """Return what was committed, with the parents' results in those jobs that have parents."""
    claimed = [
        [job if job.when is None else await _with_parents(store, job) for job in jobs]
        for jobs in committed.claimed
    ]
    return replace(committed, claimed=claimed)


async def _with_parents(store: Store, job: Job) -> Job:
    runs: list[ParentRun] = []
    room, after = MAX_PARENT_BYTES, None
    while edges := await store.parents(job.id, after=after, limit=PARENTS_AT_ONCE):
        found = dict[str, Job]()
        if room > 0:
            jobs = await store.get([edge.parent for edge in edges])
            found = {parent.id: parent for parent in jobs if parent is not None}
        for edge in edges:
            parent = found.get(edge.parent)
            size = len(parent.result or b"") if parent is not None else 0
            runs.append(run_of(edge, parent if size <= room else None))
            room -= size
        after = edges[-1].parent
        if len(edges) < PARENTS_AT_ONCE:
            break
    return replace(job, parents=parents_document(runs))
