"""Workflows as JSON: a graph to be stored, and a run that is shown. Spec: docs/spec/http.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from shunter.model.identity import is_name
from shunter.model.job import Job
from shunter.model.run_view import RunSummary
from shunter.model.submission import Receipt, Submission
from shunter.model.workflow import JobEdge
from shunter.wire.checked_documents import Document, Name, RunName, Text, checked
from shunter.wire.documents import JobDocument, JobRequest, Limit, job_document, submission_from
from shunter.wire.tagged_values import BadDocument

MAX_GRAPH_JOBS = 10_000


class WorkflowRequest(Document, frozen=True, kw_only=True):
    """Jobs that are stored together or not at all.

    A job names those that it waits for in `after`: ids of jobs of this graph, or of jobs that were
    submitted before. `run` is made up where it is not named.
    """

    jobs: Annotated[
        tuple[JobRequest, ...],
        Meta(
            min_length=1,
            max_length=MAX_GRAPH_JOBS,
            description=f"a list of 1 to {MAX_GRAPH_JOBS:,} jobs",
        ),
    ]
    workflow: Text | None = None
    run: RunName | None = None


class RerunRunRequest(Document, frozen=True, kw_only=True):
    """From which job on a run is to be done again; all of it, if none is named."""

    first: Name | None = None


class RunsQuery(Document, frozen=True, kw_only=True):
    """Which runs to list, newest first; `before` is the `next` of the last page."""

    workflow: Text | None = None
    before: Text | None = None
    limit: Limit = 50


class RunInShort(Document, frozen=True, kw_only=True):
    """One run: how many of its jobs stand where; `is_cut` says that it has more than those.

    `ended` is when the last of them has ended, null while one has not.
    """

    run: str
    workflow: str | None
    created: float
    ended: float | None
    jobs: dict[str, int]
    is_cut: bool


class RunsDocument(Document, frozen=True, kw_only=True):
    """Runs of workflows, newest first; `next` is the `before` of more."""

    runs: tuple[RunInShort, ...]
    next: str | None = None


class RunQuery(Document, frozen=True, kw_only=True):
    """Which jobs of the run to show, newest first; `before` is the last one already seen."""

    before: Name | None = None
    limit: Limit = 500


class CancelRunQuery(Document, frozen=True, kw_only=True):
    """From which job on a run is to be cancelled; all of it, if none is named."""

    first: Name | None = None


class EdgeDocument(Document, frozen=True, kw_only=True):
    """`child` waits for `parent`; `outcome` is the letter of how that ended, empty until then."""

    child: str
    parent: str
    outcome: str


class RunDocument(Document, frozen=True, kw_only=True):
    """Jobs of a run, newest first, and the edges to them; `next` is the `before` of more."""

    run: str
    workflow: str | None
    jobs: tuple[JobDocument, ...]
    edges: tuple[EdgeDocument, ...]
    next: str | None = None


class CancelledJob(Document, frozen=True, kw_only=True):
    """What became of the cancel of one job; `reason` says why it can't be."""

    id: str
    reason: str


class CancelledRun(Document, frozen=True, kw_only=True):
    """Which jobs of a run were cancelled, or are about to be."""

    run: str
    jobs: tuple[CancelledJob, ...]


def graph_of_document(document: Any, new_id: Callable[[], str]) -> list[Submission]:
    """Read a graph, with ids for all of its jobs and for the run."""
    try:
        request = checked(document, WorkflowRequest)
    except BadDocument as fault:
        raise _fault_of_a_job(document) or fault from None
    run = request.run or new_id()
    jobs = []
    for at, job in enumerate(request.jobs):
        if job.workflow is not None or job.run is not None:
            misplaced = BadDocument("run", "found in a job; send it beside jobs, for all")
            raise _in_job(misplaced, at, job.id)
        try:
            made = submission_from(job, new_id=new_id())
        except BadDocument as fault:
            raise _in_job(fault, at, job.id) from None
        jobs.append(replace(made, workflow=request.workflow, run=run))
    return jobs


def _fault_of_a_job(document: Any) -> BadDocument | None:
    """Return what is wrong with the first job that can't be read, and which one that is."""
    jobs = document.get("jobs") if isinstance(document, dict) else None
    for at, job in enumerate(jobs if isinstance(jobs, list) else ()):
        try:
            checked(job, JobRequest)
        except BadDocument as fault:
            return _in_job(fault, at, job.get("id") if isinstance(job, dict) else None)
    return None


def _in_job(fault: BadDocument, at: int, job_id: Any) -> BadDocument:
    name = f"job {job_id}: " if isinstance(job_id, str) and is_name(job_id) else ""
    field = f"jobs[{at}].{fault.field}" if fault.field else f"jobs[{at}]"
    return BadDocument(field, f"{name}{fault.message}")


def runs_document(runs: Sequence[RunSummary], following: str | None) -> RunsDocument:
    """Write a page of the list of runs."""
    return RunsDocument(
        runs=tuple(
            RunInShort(
                run=run.id,
                workflow=run.workflow,
                created=run.created,
                ended=run.ended,
                jobs={status.value: count for status, count in run.counts.items()},
                is_cut=run.is_cut,
            )
            for run in runs
        ),
        next=following,
    )


def run_document(
    run: str, jobs: Sequence[Job], edges: Sequence[JobEdge], following: str | None = None
) -> RunDocument:
    """Write a page of a run."""
    return RunDocument(
        run=run,
        workflow=next((job.workflow for job in jobs if job.workflow), None),
        jobs=tuple(job_document(job, in_full=False) for job in jobs),
        edges=tuple(
            EdgeDocument(child=edge.child, parent=edge.parent, outcome=edge.outcome.value)
            for edge in edges
        ),
        next=following,
    )


def cancelled_run(run: str, receipts: Sequence[Receipt]) -> CancelledRun:
    """Write what became of the jobs of a run that was cancelled."""
    jobs = (CancelledJob(id=receipt.job_id, reason=receipt.reason) for receipt in receipts)
    return CancelledRun(run=run, jobs=tuple(jobs))
