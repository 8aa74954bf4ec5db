"""The views of flows: runs of them, and the graph of one."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Status
from shunter.model.key import Action
from shunter.net.web.refusals import not_found
from shunter.page.flow_drawing import HEIGHT, WIDTH, drawn, flow_progress
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
        "payload": value_tree(job.payload),
        "may": asked.may,
    }


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
    regions=("head", "graph", "stages"),
    is_in_menu=False,
    is_for_all=True,
)
