"""The views of flows: runs of them, and the graph of one."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.flow.job_progress import FlowProgress
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Job, Status
from shunter.model.key import Action
from shunter.net.web.refusals import not_found
from shunter.page.flow_drawing import HEIGHT, WIDTH, drawn, flow_progress, is_full, safe_at
from shunter.page.system_look import SystemLook
from shunter.page.value_tree import value_tree
from shunter.page.view import Data, PageRequest, View
from shunter.store.search import JobSearch

SHOWN = 50


async def read_flows(look: SystemLook, asked: PageRequest) -> Data:
    """Runs of flows: all that go on, and the last that are over."""
    wanted = JobSearch(type=FLOW_JOB, namespace=asked.scope.listed(), limit=SHOWN)
    running = await look.search(replace(wanted, status=Status.IN_PROGRESS))
    recent = await look.search(replace(wanted, after=asked.query.get("after") or None))
    jobs = {job.id: job for job in [*running.jobs, *recent.jobs]}
    return {
        "flows": {job.id: (job, flow_progress(job)) for job in jobs.values()},
        "seen": recent,
        "may": asked.may,
    }


async def read_flow(look: SystemLook, asked: PageRequest) -> Data:
    """One run."""
    job = await look.job(asked.id)
    if job is None or not asked.scope.shows(job) or job.type != FLOW_JOB:
        raise not_found(asked.id)
    progress = flow_progress(job)
    return {
        "job": job,
        "progress": progress,
        "drawing": None if progress is None or not progress.stages else drawn(progress),
        "box": (WIDTH, HEIGHT),
        "safe": _safe_points(job, progress),
        "slow": [] if progress is None else [it for it in progress.stages if is_full(it)],
        "bad": [] if progress is None else [it for it in progress.stages if it.failed],
        "payload": value_tree(job.payload),
        "may": asked.may,
    }


def _safe_points(job: Job, progress: FlowProgress | None) -> list[Data]:
    """What a later try would go on from: the last checkpoint, the last batch."""
    if progress is None:
        return []
    return [
        {"name": name, "point": point, "at": safe_at(job, progress, point)}
        for name, point in (("Checkpoint", progress.checkpoint), ("Batch", progress.batch))
        if point is not None
    ]


FLOWS = View(
    name="flows",
    path="/flows",
    title="Flows",
    opening=Action.SEE_JOBS,
    read=read_flows,
    regions=("pager",),
    lists={"flows": "flow_row"},
    is_for_all=True,
)
FLOW = View(
    name="flow",
    path="/flows/{id}",
    title="Flow",
    opening=Action.SEE_JOBS,
    read=read_flow,
    regions=("head", "graph", "bad_events", "stages"),
    is_in_menu=False,
    is_for_all=True,
)
