"""Workers that all dispatchers share, as the store lists them: HTTP workers. Pure.

No connection joins such a worker to one dispatcher. Each dispatcher has it on its roster as long
as its record says that it is there, and learns from the record what the others gave it.
"""

from __future__ import annotations

from shunter.dispatch.arrivals import Survey
from shunter.dispatch.state import DispatcherState, Member
from shunter.model.final_failure import hooked_types
from shunter.model.worker import Worker


def take_survey(state: DispatcherState, survey: Survey, *, now: float) -> None:
    """Bring the roster up to date with the records, and what is known of hooks."""
    here = (member.worker for member in state.members.values())
    state.hooked = hooked_types((*survey.workers, *here))
    usable = {
        worker.id: worker
        for worker in survey.workers
        if worker.kind.traits.is_shared and not worker.is_dead and not worker.is_resigned
    }
    shared = [
        worker_id
        for worker_id, member in state.members.items()
        if member.worker.kind.traits.is_shared
    ]
    for worker_id in shared:
        if worker_id not in usable:
            state.remove(worker_id)
    for worker in usable.values():
        known = state.members.get(worker.id)
        if known is None or known.worker != worker or not _is_at_rest(state, known):
            _let_in(state, worker, survey, now=now)
            _compare(state, worker, as_of=survey.as_of)


def _is_at_rest(state: DispatcherState, member: Member) -> bool:
    """True if there is nothing to compare: of a thousand workers most are so, most times."""
    capacity = state.roster.capacity_of(member.worker.id)
    return capacity is not None and capacity.is_open and not capacity.held and not capacity.blocked


def _let_in(state: DispatcherState, worker: Worker, survey: Survey, *, now: float) -> None:
    known = state.members.get(worker.id)
    is_new = known is None or (known.worker.handlers, known.worker.max_jobs) != (
        worker.handlers,
        worker.max_jobs,
    )
    if is_new:
        state.members[worker.id] = Member(worker, survey.link, now)
        state.roster.enlist(worker.id, worker.handlers, worker.max_jobs, is_shared=True)
        state.heed_drain(worker)
        state.expect_waiting(worker)
        return
    assert known is not None
    known.worker = worker
    state.heed_drain(worker)
    if not is_shut(known, now=now):
        state.roster.adjust(worker.id, is_open=True)


def _compare(state: DispatcherState, worker: Worker, *, as_of: float) -> None:
    """Take over which jobs and places the worker has, but for what we did since then."""
    listed = set(worker.jobs)
    for job_id in list(state.roster.held(worker.id)):
        job = state.running.get(job_id)
        given_at = None if job is None else job.execution.given_at
        if job_id not in listed and (given_at is None or given_at < as_of):
            state.forget_on(worker.id, job_id)
    for job_id in listed - state.roster.held(worker.id):
        state.roster.hold(worker.id, job_id)
    state.roster.block(worker.id, worker.places)


def is_shut(member: Member, *, now: float) -> bool:
    """True if a worker is to be left alone: it was full, or could not be reached.

    One that could not be reached opens again when it has answered a health check since.
    """
    if member.unreachable_since is not None:
        answered = member.worker.answered
        return answered is None or answered < member.unreachable_since
    return now < member.full_until
