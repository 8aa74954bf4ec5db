"""Reads runs of workflows from the store, a page at a time: jobs without their bytes, and edges."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from shunter.model.job import Job
from shunter.model.run_view import RunView
from shunter.model.scope import JobScope
from shunter.model.workflow import JobEdge
from shunter.store.port import JobQuery, Store

MOST_EDGES = 20_000
"""How many edges are shown at once, with one job more than fits."""

EDGES_AT_ONCE = 5000
JOBS_AT_ONCE = 100
PAGE = 500


class RunPage(Struct, frozen=True):
    """Jobs of a run, the newest first, and all edges to them."""

    jobs: tuple[Job, ...]
    edges: tuple[JobEdge, ...]


async def with_edges(store: Store, jobs: Sequence[Job]) -> RunPage:
    """Return these jobs with what they wait for, or the first of them where it is too much."""
    edges: list[JobEdge] = []
    shown, step = 0, JOBS_AT_ONCE
    while shown < len(jobs) and len(edges) < MOST_EDGES:
        some = jobs[shown : shown + step]
        found = await _edges_to(store, some, most=MOST_EDGES if step > 1 else None)
        if found is None:
            step = 1
            continue
        edges += found
        shown += len(some)
    return RunPage(tuple(jobs[:shown]), tuple(edges))


async def _edges_to(store: Store, jobs: Sequence[Job], *, most: int | None) -> list[JobEdge] | None:
    """Return all edges to these jobs, in their order, or None where there are more than so many."""
    children = [job.id for job in jobs if job.when is not None]
    found: list[JobEdge] = []
    while children:
        after = found[-1] if found else None
        page = await store.parents(children, after=after, limit=EDGES_AT_ONCE)
        found += page
        if most is not None and len(found) > most:
            return None
        if len(page) < EDGES_AT_ONCE:
            break
    order = {child: number for number, child in enumerate(children)}
    return sorted(found, key=lambda edge: (order[edge.child], edge.at))


async def read_run(store: Store, run_id: str, scope: JobScope) -> RunView:
    """Read a whole run, as far as it is in scope."""
    jobs: list[Job] = []
    edges: list[JobEdge] = []
    before = None
    while True:
        query = JobQuery(run=run_id, namespace=scope.listed(), before=before, limit=PAGE)
        page = await with_edges(store, await store.find(query))
        jobs += page.jobs
        edges += page.edges
        if not page.jobs:
            return RunView(run_id, reversed(jobs), edges)
        before = page.jobs[-1].id
