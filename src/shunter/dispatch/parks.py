"""What becomes of a run that parks: its job waits, holds nothing, and nothing is counted. Pure.

The waits that are over, the jobs to wait for and the park itself are one batch. A park for a
signal that has come meanwhile is no park: the job is queued again at once. One for jobs has an
alarm until it is known that they are stored: where a store is no transaction, the job is woken
by it, and parks again. Rules: docs/spec/steps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from msgspec.structs import replace

from shunter.dispatch.arrivals import ParkStored, Reported, Submitter
from shunter.dispatch.effects import DecideAgain, Effect
from shunter.dispatch.plan import Change, GraphInsertion, Plan
from shunter.errors import JobError, JobRefused
from shunter.model import lifecycle
from shunter.model.job import Job, Status
from shunter.model.park import Park, is_parked, park_of
from shunter.model.report import Report
from shunter.model.submission import Submission
from shunter.model.waits import WaitKind, child_ids
from shunter.model.workflow import JobEdge, JobGraph

NET_SECONDS = 15.0
"""A park for jobs of which nobody knows whether they are stored is looked at after this time."""

Admit = Callable[[Submission, Submitter, float], Job]


def children_in(reported: Iterable[Reported]) -> Iterator[str]:
    """Yield the ids of the jobs that parked runs are to wait for."""
    for arrival in reported:
        report = arrival.report
        if report.error is not None and is_parked(report.error):
            try:
                park = park_of(report.job_id, report.attempt, report.result)
            except JobError:
                continue
            yield from child_ids(report.job_id, park.name, len(park.children))


def plan_park(job: Job, report: Report, admit: Admit, there: Set[str], plan: Plan) -> Job:
    """Return the parked job and plan what belongs to it, or raise a JobError.

    `there` are those of its children that are stored already: they are waited for, not made.
    """
    park = park_of(job.id, report.attempt, report.result)
    waits = park.waits(now=plan.now)
    until = waits.until
    graph = _children(job, park, admit, there, plan.now) if park.children else None
    if graph is not None:
        until = plan.now + NET_SECONDS
    changes = {"when": None} if graph is not None else {}
    parked = lifecycle.parked(
        job,
        report.attempt,
        now=plan.now,
        wait_until=until,
        waits=waits,
        log=report.log or job.log,
        **changes,
    )
    if parked.status.is_final:
        return parked
    plan.entries += [mark.entry(now=plan.now) for mark in park.marks]
    if graph is not None:
        plan.graphs.append(GraphInsertion(graph, lambda receipts: None))
        plan.parks[job.id] = len(plan.graphs) - 1
    elif park.kind is WaitKind.SIGNAL and park.seen != job.signals:
        woken = lifecycle.woken(parked, now=plan.now)
        return replace(woken, revision=parked.revision)
    return parked


def _children(job: Job, park: Park, admit: Admit, there: Set[str], now: float) -> JobGraph:
    submitter = Submitter(namespace=job.namespace)
    made = []
    for submission in park.children:
        if submission.id not in there:
            run = (
                None if submission.run == job.run else submission.run
            )  # its own, however it is called
            inherited = replace(submission, workflow=job.workflow, run=run, reply=False)
            try:
                child = admit(inherited, submitter, now)
                made.append(replace(child, run=submission.run, dependents=True))
            except JobRefused as refusal:
                raise JobError(job.id, f"step {park.name!r}: {refusal}") from None
    edges = tuple(
        JobEdge(job.id, submission.id, at=at) for at, submission in enumerate(park.children)
    )
    return JobGraph(jobs=tuple(made), edges=edges)


def stored_parks(plan: Plan, planted: list[bool], lost_races: Set[str]) -> Iterator[Effect]:
    """Have the alarm taken from jobs whose children are stored."""
    for job_id, place in plan.parks.items():
        if planted[place] and job_id not in lost_races:
            yield DecideAgain(ParkStored(job_id))


def plan_stored(job: Job | None, plan: Plan) -> None:
    """Take the alarm from a job that waits for others, all of which are stored."""
    is_waiting = job is not None and job.status is Status.WAITING and job.wait_until is not None
    if job is None or not is_waiting or job.id in plan.changes:
        return
    if job.waits is not None and job.waits.kind is WaitKind.CHILDREN:
        plan.changes[job.id] = Change(lifecycle.parked(job, job.attempt, now=plan.now))
