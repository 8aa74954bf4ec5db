"""How the dependents of jobs that have ended are told, a page at a time. Pure.

A job that has ended and has dependents says so in its record until all of them know. Each turn
takes one page of such parents' edges and goes three steps, each of which is committed before
the next: the outcomes are written into the edges; each child is decided on by what all of its
edges say; the parents have no dependents any more. Whoever takes up what a dead dispatcher has
begun starts with the first step, and finds what is done already done.
What is kept here is a hint. Rules: docs/spec/workflows.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.plan import Change, Delivery, Plan
from shunter.model import lifecycle
from shunter.model.job import Job, Status, When
from shunter.model.watch import Watch
from shunter.model.workflow import (
    BAD,
    Decision,
    JobEdge,
    ParentOutcome,
    decision_on,
    is_parked,
    not_needed,
    outcome_of,
    waits_in_vain,
)

PARENTS_AT_ONCE = 500
EDGES_AT_ONCE = 1000

LEFT_TO_OTHERS_SECONDS = 1.0
"""How long what another dispatcher has ended is left to it."""


class EdgePage(Struct, frozen=True):
    """Which edges to read next: so many of these parents', from behind `after`."""

    parents: tuple[str, ...]
    after: JobEdge | None
    limit: int


class _Telling(Struct):
    """Parents whose outcomes are in their edges, and the children that are still to be decided.

    `blamed` has by child a parent that failed or was cancelled.
    """

    parents: list[Job]
    children: set[str]
    blamed: dict[str, Job]


class DependentsQueue:
    """One dispatcher's parents whose dependents are to be told."""

    def __init__(self) -> None:
        self._due: dict[str, Job] = {}
        self._told: set[str] = set()  # parents whose outcomes are written, not yet all decided
        self._page: EdgePage | None = None
        self._tellings: deque[_Telling] = deque()
        self._planned: _Telling | None = None
        self._next_page: EdgePage | None = None
        self._later: set[str] = set()
        self._watched = Watch()

    @property
    def has_work(self) -> bool:
        return bool(self._due or self._tellings)

    def offer(self, jobs: Iterable[Job]) -> None:
        """Take note of jobs that have ended and have dependents."""
        for job in jobs:
            if job.dependents and not self._is_busy(job.id):
                self._due[job.id] = replace(job, payload=None, result=None)

    def offer_found(self, jobs: Iterable[Job], others: Set[str], *, now: float) -> None:
        """Take note of what the store has, unless a dispatcher that is alive is probably at it."""
        found = list(jobs)
        self._watched.keep_only({job.id for job in found})
        for job in found:
            theirs = job.dispatcher is not None and job.dispatcher.id in others
            seconds = self._watched.unchanged_for(job.id, job.revision, now=now)
            if not theirs or seconds >= LEFT_TO_OTHERS_SECONDS:
                self.offer([job])

    def page(self) -> EdgePage | None:
        """Return which edges the turn that begins needs."""
        if self._page is None and self._due:
            parents = tuple(sorted(islice(self._due, PARENTS_AT_ONCE)))
            self._page = EdgePage(parents, None, EDGES_AT_ONCE)
        return self._page

    def undecided(self) -> set[str]:
        """Return the children that the turn that begins decides on."""
        return {child for telling in self._tellings for child in telling.children}

    @property
    def told_next(self) -> Sequence[Job]:
        """The parents of which all edges have their outcome once the planned turn is committed."""
        return () if self._planned is None else self._planned.parents

    def plan(
        self,
        edges: Sequence[JobEdge],
        jobs: Mapping[str, Job],
        standings: Mapping[str, frozenset[ParentOutcome]],
        plan: Plan,
    ) -> list[Job]:
        """Plan a step of everything that is under way; return the jobs that are woken."""
        while self._tellings and not self._tellings[0].children:
            for parent in self._tellings.popleft().parents:
                self._told.discard(parent.id)
                told = replace(parent, dependents=False, revision=parent.revision + 1)
                plan.deliveries.append(Delivery(told, is_telling=True))
        self._later = set()
        woken: dict[str, Job] = {}
        for telling in self._tellings:
            for child in telling.children:
                if child in woken:
                    continue
                if child in plan.changes:
                    self._later.add(child)
                elif after := _decided(
                    jobs.get(child), standings.get(child), telling.blamed.get(child), now=plan.now
                ):
                    plan.changes[child] = Change(after)
                    if after.status is Status.QUEUED:
                        woken[child] = after
        self._plan_outcomes(edges, plan)
        return list(woken.values())

    def settle(self, lost: Set[str]) -> None:
        """Go on after the commit: children whose write was `lost` are decided on again."""
        again = lost | self._later
        for telling in self._tellings:
            telling.children &= again
        if self._planned is not None:
            self._tellings.append(self._planned)
            for parent in self._planned.parents:
                del self._due[parent.id]
                self._told.add(parent.id)
            self._planned, self._page = None, self._next_page

    def _plan_outcomes(self, edges: Sequence[JobEdge], plan: Plan) -> None:
        """Write how parents ended into a page of their edges."""
        page = self._page
        if page is None:
            return
        telling = _Telling([], set(), {})
        for edge in edges:
            outcome = outcome_of(self._due[edge.parent])
            if edge.outcome is ParentOutcome.PENDING:
                plan.outcomes.append(replace(edge, outcome=outcome))
            telling.children.add(edge.child)
            if outcome in BAD:
                telling.blamed[edge.child] = self._due[edge.parent]
        self._next_page = None
        last = edges[-1] if len(edges) >= page.limit else None
        left = tuple(it for it in page.parents if last is not None and it >= last.parent)
        telling.parents = [self._due[it] for it in page.parents[: len(page.parents) - len(left)]]
        if left:
            self._next_page = EdgePage(left, last, page.limit)
        self._planned = telling

    def _is_busy(self, job_id: str) -> bool:
        return job_id in self._due or job_id in self._told


def _decided(
    job: Job | None,
    standing: frozenset[ParentOutcome] | None,
    blamed: Job | None,
    *,
    now: float,
) -> Job | None:
    """Return what becomes of a child, if anything."""
    if job is None or not is_parked(job) or not standing:
        return None
    match decision_on(job.when or When.ALL_DONE, standing):
        case Decision.WAIT:
            return None
        case Decision.RUN:
            return lifecycle.woken(job, now=now)
        case Decision.CANCEL:
            error = waits_in_vain(job, blamed)
        case Decision.SKIP:
            error = not_needed(job)
    return lifecycle.cancelled(job, now=now, stoppable=False, error=error)
