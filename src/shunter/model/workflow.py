"""Which jobs wait for which, and what becomes of one when those have ended. Pure.

A job that waits for others is parked: it takes no slot and no lease. What it waits for are edges,
rows of their own, so that neither ten thousand parents nor as many dependents make a record
grow. A parent that others wait for says so in its record (`Job.dependents`); once it has ended,
any dispatcher writes its outcome into its edges and then decides on the dependents, each by what
all of its edges say. Outcomes are never taken back, so deciding twice is harmless.
Rules: docs/spec/workflows.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct

from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model.job import ErrorKind, Failure, Job, Status, When
from shunter.model.json_record import JsonRecord
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.uniqueness import answer_to
from shunter.model.waits import WaitKind


class ParentOutcome(StrEnum):
    """How a parent has ended, as its edges say it: one letter in the store."""

    PENDING = ""
    COMPLETED = "c"
    FAILED = "f"
    CANCELLED = "x"
    UNNEEDED = "n"


class JobEdge(JsonRecord, Struct, frozen=True, gc=False):
    """`child` waits, or has waited, for `parent`, which it named as number `at`."""

    child: str
    parent: str
    outcome: ParentOutcome = ParentOutcome.PENDING
    at: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the two ids and the letter of the outcome as a dict that `json.dumps` takes."""
        return {"child": self.child, "parent": self.parent, "outcome": self.outcome.value}


class JobGraph(Struct, frozen=True, kw_only=True, dict=True):
    """Jobs that are stored together or not at all, with all that they wait for.

    A child of an edge is one of the `jobs`, or was stored before and is parked; a parent is
    one of the `jobs` or was stored before, and is in the `scope` of whoever submits it.
    """

    jobs: tuple[Job, ...]
    edges: tuple[JobEdge, ...] = ()
    scope: JobScope = EVERYTHING

    @property
    def parents(self) -> set[str]:
        """All jobs that others of the graph wait for."""
        return {edge.parent for edge in self.edges}

    @cached_property
    def outside(self) -> list[str]:
        """The parents and children that were stored before; looked for once."""
        own = {job.id for job in self.jobs}
        ends = {edge.parent for edge in self.edges}
        ends.update([edge.child for edge in self.edges])
        return sorted(ends - own)

    def refusal(self, stored: Mapping[str, Job]) -> JobRefused | None:
        """Return why it can't be stored, where these are the jobs outside that are there."""
        own = {job.id for job in self.jobs}
        for edge in self.edges:
            if edge.parent not in own and not self.scope.shows(stored.get(edge.parent)):
                return unknown_parent(edge.child, edge.parent)
            child = stored.get(edge.child)
            if edge.child not in own and not (self.scope.shows(child) and is_parked(child)):
                fact = (
                    f"job {edge.child} waits for no jobs any more, so it can't wait for this one; "
                    "wait until it has ended, or cancel it, and ask again"
                )
                return JobRefused(edge.parent, "awaited_by", fact)
        return None


def unknown_parent(child: str, parent: str) -> JobRefused:
    """Return the refusal of a job that is to wait for one that nobody knows."""
    return JobRefused(
        child,
        "after",
        f"there is no job {parent[:64]}, or it is purged; name jobs of the same submission, or "
        "ids of jobs that were accepted",
    )


def answer_to_graph(graph: JobGraph, stored: Mapping[str, Job]) -> list[Job] | JobRefused:
    """Return what is said to a graph of which these jobs are there already, with payloads."""
    answers: list[Job] = []
    for job in graph.jobs:
        earlier = stored.get(job.id)
        if earlier is None:
            first = next(iter(stored))
            return UniqueKeyTaken(first, "id", first)
        answer = answer_to(job, earlier)
        if not isinstance(answer, Job):
            return (
                answer if isinstance(answer, JobRefused) else UniqueKeyTaken(job.id, "id", job.id)
            )
        answers.append(answer)
    return answers


def outcome_of(parent: Job) -> ParentOutcome:
    """Return what the edges of a parent are to say."""
    if not parent.status.is_final:
        return ParentOutcome.PENDING
    if parent.error is not None and parent.error.kind is ErrorKind.UNNEEDED:
        return ParentOutcome.UNNEEDED
    return ParentOutcome(parent.status.value)


BAD = frozenset({ParentOutcome.FAILED, ParentOutcome.CANCELLED})


class Decision(StrEnum):
    """What is to become of a parked job."""

    WAIT = "wait"
    RUN = "run"
    CANCEL = "cancel"
    SKIP = "skip"


def decision_on(when: When, outcomes: Set[ParentOutcome]) -> Decision:
    """Decide on a parked job, of whose edges these are the outcomes.

    `all_ok` and `any_failed` are decided by the first parent that failed or was cancelled. What
    waits for a parent that was not needed is not needed either, unless another one failed: so it
    never matters which of them ended first.
    """
    is_pending = ParentOutcome.PENDING in outcomes
    is_bad = not BAD.isdisjoint(outcomes)
    match when:
        case When.ANY_FAILED:
            return Decision.RUN if is_bad else Decision.WAIT if is_pending else Decision.SKIP
        case When.ALL_DONE:
            return Decision.WAIT if is_pending else Decision.RUN
        case When.ALL_OK:
            if is_bad:
                return Decision.CANCEL
            if is_pending:
                return Decision.WAIT
            return Decision.SKIP if ParentOutcome.UNNEEDED in outcomes else Decision.RUN


def has_completed_for_others(job: Job) -> bool:
    """True if a job is completed, and others wait for it."""
    return job.dependents and job.status is Status.COMPLETED


def wakes_as_it_is(job: Job) -> bool:
    """True if a parked job runs once all its parents have completed, and nothing else changes."""
    return (
        job.when in (When.ALL_OK, When.ALL_DONE)
        and job.waits is None
        and job.wait_until is None
        and job.not_before is None
        and job.place_within is None
    )


def waits_in_vain(job: Job, parent: Job | None) -> Failure:
    """Return why a dependent is cancelled: this parent of it, or some, did not complete."""
    fact = "a parent of it did not complete"
    if parent is not None:
        how = "was cancelled" if parent.status is Status.CANCELLED else "failed"
        fact = f"its parent {parent.id} {how}"
    return Failure(
        ErrorKind.CANCELLED,
        f"{fact}, and it runs only when all have completed (when {job.when}); "
        "rerun the parent with its dependents",
    )


def not_needed(job: Job) -> Failure:
    """Return why a dependent is not needed any more."""
    fact = (
        "none of its parents failed"
        if job.when is When.ANY_FAILED
        else "a parent of it was not needed"
    )
    return Failure(ErrorKind.UNNEEDED, f"not needed: {fact} (when {job.when})")


def is_parked(job: Job | None) -> bool:
    """True if a job is there and waits for others, not for a time or a signal."""
    if job is None or job.status is not Status.WAITING:
        return False
    return job.waits is None or job.waits.kind is WaitKind.CHILDREN
