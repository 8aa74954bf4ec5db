"""The views of workflows: runs of them, and the graph of one."""

from __future__ import annotations

from shunter.gateway.http.run_orders import no_run
from shunter.model.job import ErrorKind, Job
from shunter.model.key import Action
from shunter.model.run_view import RunView
from shunter.model.workflow import JobEdge
from shunter.page.filters import MOST_CHARACTERS, is_cursor
from shunter.page.run_drawing import HEIGHT, WIDTH, drawn_run, state_of
from shunter.page.system_look import SystemLook
from shunter.page.view import Data, PageRequest, View
from shunter.store.search import COUNTED_OF_A_RUN, JobSearch, RunSearch, RunsSeen

SHOWN_RUNS = 30
SHOWN_JOBS = 400
LISTED_JOBS = 100
MOST_EDGES = 4000
LOOKED_AT = 4000
"""How many jobs of runs are counted for one page of them."""

IN_COLUMN = 16


async def read_runs(look: SystemLook, asked: PageRequest) -> Data:
    """Runs of workflows, the newest first."""
    after = asked.query.get("after", "")
    workflow = asked.query.get("workflow", "").strip()[:MOST_CHARACTERS]
    seen = await _runs(
        look,
        RunSearch(
            namespace=asked.scope.listed(),
            workflow=workflow or None,
            after=after if is_cursor(after) else None,
            limit=SHOWN_RUNS,
            most=LOOKED_AT,
        ),
    )
    return {
        "runs": {run.id: (run, state_of(run.counts)) for run in seen.runs},
        "seen": seen,
        "workflow": workflow,
        "is_first": not after,
        "may": asked.may,
    }


async def read_run(look: SystemLook, asked: PageRequest) -> Data:
    """One run: how it stands, its graph, and its last jobs."""
    namespace = asked.scope.listed()
    counted = RunSearch(namespace=namespace, after=f"{asked.id}\0", limit=1)
    summary = next((it for it in (await _runs(look, counted)).runs if it.id == asked.id), None)
    if summary is None:
        raise no_run(asked.id)
    wanted = JobSearch(run=asked.id, namespace=namespace, limit=SHOWN_JOBS)
    jobs = (await look.search(wanted)).jobs
    edges = await look.once(
        ("edges", asked.id, tuple(job.id for job in jobs)),
        lambda: look.ports.dispatcher.store.dependents([it.id for it in jobs], limit=MOST_EDGES),
    )
    view = RunView(asked.id, reversed(jobs), _inner(edges, {job.id for job in jobs}))
    return {
        "run": summary,
        "state": state_of(summary.counts, unneeded=sum(map(_is_unneeded, jobs))),
        "is_over": summary.ended is not None and not summary.is_cut,
        "drawing": drawn_run(view, most=IN_COLUMN),
        "box": (WIDTH, HEIGHT),
        "jobs": {job.id: job for job in jobs[:LISTED_JOBS]},
        "shown": len(jobs),
        "total": sum(summary.counts.values()),
        "counted": COUNTED_OF_A_RUN,
        "may": asked.may,
    }


def _is_unneeded(job: Job) -> bool:
    return job.error is not None and job.error.kind is ErrorKind.UNNEEDED


async def _runs(look: SystemLook, wanted: RunSearch) -> RunsSeen:
    return await look.once(wanted, lambda: look.ports.dispatcher.store.runs(wanted))


def _inner(edges: list[JobEdge], ids: set[str]) -> list[JobEdge]:
    """Return the edges between jobs that are shown; how their parents ended is the jobs' to say."""
    return [edge for edge in edges if edge.child in ids]


WORKFLOWS = View(
    name="workflows",
    path="/workflows",
    title="Workflows",
    opening=Action.SEE_JOBS,
    read=read_runs,
    regions=("pager",),
    lists={"runs": "run_row"},
    is_for_all=True,
)
WORKFLOW = View(
    name="workflow",
    path="/workflows/{id}",
    title="Run",
    opening=Action.SEE_JOBS,
    read=read_run,
    regions=("head", "graph"),
    lists={"jobs": "job_row"},
    is_in_menu=False,
    is_for_all=True,
)
