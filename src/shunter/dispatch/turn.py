"""A dispatcher as a value and three functions.

`reads` says what to ask the store about, `turn` decides on all that arrived and returns what to
write, `settle` takes the store's answer in and returns what to do. Whoever calls them has the
store, the clock and the sockets; here there are none.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from shunter.dispatch.arrivals import Arrivals, StoredJobs, WorkerLeft
from shunter.dispatch.dependents import EdgePage
from shunter.dispatch.effects import Effect
from shunter.dispatch.membership import lapsed, missing_from, strangers_in
from shunter.dispatch.parks import children_in
from shunter.dispatch.plan import Plan
from shunter.dispatch.planner import Planner
from shunter.dispatch.settlement import Settlement
from shunter.dispatch.state import DispatcherState
from shunter.dispatch.verdict import is_run_of
from shunter.store.port import Committed


class Reads(Struct, frozen=True):
    """Which jobs to ask the store about: by their ids, and by who has them.

    And which edges: a page of those of parents, and all of certain children, in short, with those
    children themselves.
    """

    job_ids: frozenset[str]
    worker_ids: frozenset[str]
    edges: EdgePage | None = None
    children: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if nothing must be read."""
        return not (self.job_ids or self.worker_ids or self.children) and self.edges is None


def reads(state: DispatcherState, arrivals: Arrivals, *, now: float) -> Reads:
    """Return what must be read before a turn: what arrivals speak of and nobody here knows."""
    left = {event.worker_id for event in arrivals.membership if isinstance(event, WorkerLeft)}
    running = state.running
    ids = {
        job_id
        for job_id in arrivals.mentioned()
        if job_id not in running or running[job_id].execution.worker_id in left
    }
    ids.update(_contradicting(state, arrivals))
    ids.update(children_in(arrivals.reported))
    workers = {arrival.worker_id for arrival in arrivals.unattributed}
    for arrival in arrivals.introduced():
        ids.update(held.job_id for held in arrival.held)
        workers.add(arrival.worker.id)
    for beat in arrivals.beaten.values():
        ids |= missing_from(state, beat)
        ids.update(held.job_id for held in strangers_in(state, beat))
    for survey in arrivals.surveyed:
        workers.update(worker.id for worker in lapsed(state, survey, now=now) if worker.jobs)
    if not arrivals.due_dependents and not state.dependents.has_work:
        return Reads(frozenset(ids), frozenset(workers))
    state.dependents.offer_found(arrivals.due_dependents, state.others, now=now)
    children = frozenset(state.dependents.undecided())
    page = state.dependents.page()
    return Reads(frozenset(ids), frozenset(workers), page, children)


def _contradicting(state: DispatcherState, arrivals: Arrivals) -> Iterator[str]:
    """Yield the jobs of reports on runs other than those that we know of.

    Another dispatcher may have started those, and fallen silent since.
    """
    running = state.running
    for arrival in arrivals.reported:
        report = arrival.report
        if (job := running.get(report.job_id)) is not None and (
            job.attempt != report.attempt or job.execution.worker_id != arrival.worker_id
        ):
            yield report.job_id
    for returned in arrivals.returned_jobs:
        job = running.get(returned.held.job_id)
        if job is not None and not is_run_of(job, returned.worker_id, returned.held):
            yield job.id


def turn(state: DispatcherState, arrivals: Arrivals, stored: StoredJobs, *, now: float) -> Plan:
    """Decide on all that arrived; return what is to be written."""
    plan = Planner(state).plan(arrivals, stored, now=now)
    state.callbacks.offer(arrivals.due_callbacks, now=now)
    state.callbacks.plan(arrivals.callback_attempts, stored.jobs, plan)
    return plan


def settle(state: DispatcherState, plan: Plan, committed: Committed, *, now: float) -> list[Effect]:
    """Take in what was written by now; return what is to be done, in order."""
    return Settlement(state, plan, now=now).effects(committed)
