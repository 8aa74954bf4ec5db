"""Reads how the parents of claimed jobs ended, so that it goes to the workers with them.

All that one turn has claimed is read together, and each parent once, however many of its dependents
are among them. What a worker's handler can't look at is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from shunter.model.job import Job
from shunter.model.parents import MAX_PARENT_BYTES, ParentRun, newest, parents_document, run_of
from shunter.model.workflow import JobEdge
from shunter.store.port import Committed, Store

EDGES_AT_ONCE = 20_000
PARENTS_AT_ONCE = 100


def children_of(committed: Committed, shows_parents: Callable[[Job], bool]) -> list[Job]:
    """Return the jobs that were claimed, have waited for others, and may ask how those ended."""
    return [
        job
        for jobs in committed.claimed
        for job in jobs
        if job.when is not None and shows_parents(job)
    ]


async def with_parents(store: Store, committed: Committed, children: Iterable[Job]) -> Committed:
    """Return what was committed, with the parents' results in these jobs."""
    runs: dict[str, list[ParentRun]] = {job.id: [] for job in children}
    room = dict.fromkeys(runs, MAX_PARENT_BYTES)
    parents: dict[str, Job | None] = {}
    edges = await _edges_to(store, tuple(runs))
    for start in range(0, len(edges), PARENTS_AT_ONCE):
        some = edges[start : start + PARENTS_AT_ONCE]
        wanted = {it.parent for it in some if room[it.child] > 0 and it.parent not in parents}
        names = sorted(wanted)
        parents |= zip(names, await store.get(names) if names else (), strict=True)
        for edge in some:
            parent = parents.get(edge.parent) if room[edge.child] > 0 else None
            size = len(parent.result or b"") if parent is not None else 0
            runs[edge.child].append(run_of(edge, parent if size <= room[edge.child] else None))
            room[edge.child] -= size
    newer = {job.rerun_of: job.id for job in parents.values() if job is not None and job.rerun_of}
    claimed = [
        [
            replace(job, parents=parents_document(newest(runs[job.id], newer)))
            if job.id in runs
            else job
            for job in jobs
        ]
        for jobs in committed.claimed
    ]
    return replace(committed, claimed=claimed)


async def _edges_to(store: Store, children: Sequence[str]) -> list[JobEdge]:
    """Return all edges of these children, each one's in the order in which it names its parents."""
    found: list[JobEdge] = []
    after = None
    while page := await store.parents(children, after=after, limit=EDGES_AT_ONCE):
        found += page
        after = page[-1]
        if len(page) < EDGES_AT_ONCE:
            break
    return sorted(found, key=lambda edge: (edge.child, edge.at))
