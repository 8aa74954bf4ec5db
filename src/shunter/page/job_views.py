"""The views of jobs: a page of them by a filter, and the whole story of one."""

from __future__ import annotations

import msgspec

from shunter.model.document import sealed_data_at
from shunter.model.job import Job
from shunter.model.job_log import is_log_told, log_so_far, told_of
from shunter.model.journal import EntryKind
from shunter.model.key import Action
from shunter.net.web.refusals import not_found
from shunter.page.filters import STATUSES, filter_of, is_cursor
from shunter.page.panels import read_panels
from shunter.page.system_look import SystemLook
from shunter.page.timeline import ROW, WIDTH, attempts, bars
from shunter.page.value_tree import value_tree
from shunter.page.view import Data, PageRequest, View
from shunter.shown_text import shown_json
from shunter.wire.tagged_values import tagged_document

MOST_LOG_CHARACTERS = 64_000
MOST_EDITED_BYTES = 256 * 1024


async def read_jobs(look: SystemLook, asked: PageRequest) -> Data:
    """A page of jobs."""
    chosen, after = filter_of(asked.query), asked.query.get("after", "")
    wanted = chosen.search(asked.scope, after=after if is_cursor(after) else None)
    seen = await look.search(wanted)
    jobs = seen.jobs
    if chosen.key and not jobs and (found := await look.job(chosen.key)) is not None:
        jobs = [found] if asked.scope.shows(found) else []
    return {
        "jobs": {job.id: job for job in jobs},
        "seen": seen,
        "filter": chosen,
        "is_first": not after,
        "statuses": list(STATUSES),
        "may": asked.may,
    }


async def read_job(look: SystemLook, asked: PageRequest) -> Data:
    """One job."""
    job = await look.job(asked.id)
    if job is None or not asked.scope.shows(job):
        raise not_found(asked.id)
    rows = attempts(job)
    log = await _log(look, job)
    return {
        "job": job,
        "attempts": rows,
        "bars": bars(job, rows, now=look.now),
        "line": (WIDTH, ROW * max(1, len(rows) + (not job.status.is_final and not _runs(job)))),
        "row_height": ROW,
        "payload": value_tree(job.payload),
        "result": value_tree(job.result),
        "log": log[-MOST_LOG_CHARACTERS:],
        "is_log_cut": len(log) > MOST_LOG_CHARACTERS,
        "panels": await read_panels(look, asked, job),
        "edit": _editable(job) if asked.query.get("edit") and job.status.is_final else None,
        "may": asked.may,
    }


async def _log(look: SystemLook, job: Job) -> str:
    """Return what the current run has printed so far; if none is, what the last one had."""
    if not is_log_told(job):
        return job.log
    store = look.ports.dispatcher.store
    page = await look.once(
        ("log", job.id, job.attempt), lambda: store.journal(job.id, EntryKind.LOG)
    )
    return log_so_far(job, told_of(page.entries, job.attempt))


def _editable(job: Job) -> str | None:
    """Return the payload as the text that a person changes; None if it can't be one."""
    if job.payload is None or len(job.payload) > MOST_EDITED_BYTES:
        return None
    if sealed_data_at(job.payload) is not None:
        return None
    text = msgspec.json.encode(tagged_document(job.payload))
    return shown_json(msgspec.json.format(text, indent=2).decode())


def _runs(job: Job) -> bool:
    return job.execution.worker_id is not None


JOBS = View(
    name="jobs",
    path="/jobs",
    title="Jobs",
    opening=Action.SEE_JOBS,
    read=read_jobs,
    regions=("pager",),
    lists={"jobs": "job_row"},
    is_for_all=True,
)
JOB = View(
    name="job",
    path="/jobs/{id}",
    title="Job",
    opening=Action.SEE_JOBS,
    read=read_job,
    regions=("head", "first_panels", "story", "outcome", "payload_part", "log_part", "panel_parts"),
    is_in_menu=False,
    is_for_all=True,
)
