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

EDGES_AT_ONCE = 1000
PAGE = 500


class RunPage(Struct, frozen=True):
    """Jobs of a run, the newest first, and all edges to them."""

    jobs: tuple[Job, ...]
    edges: tuple[JobEdge, ...]


async def with_edges(store: Store, jobs: Sequence[Job]) -> RunPage:
    """Return these jobs with what they wait for, or the first of them where it is too much."""
    shown: list[Job] = []
    edges: list[JobEdge] = []
    for job in jobs:
        after = None
        while job.when is not None:
            page = await store.parents(job.id, after=after, limit=EDGES_AT_ONCE)
            edges += page
            if len(page) < EDGES_AT_ONCE:
                break
            after = page[-1].parent
        shown.append(job)
        if len(edges) >= MOST_EDGES:
            break
    return RunPage(tuple(shown), tuple(edges))


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
