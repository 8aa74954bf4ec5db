"""Workers: who is here, what each of them has, and whose lease is over. Pure.

A worker's word on what it has is as old as the moment it was received. It is compared only with
what was known by then: a run that somebody started meanwhile is not missing from an older list.
Times that other dispatchers wrote are watched, never compared with our own. Rules:
docs/spec/jobs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from shunter.dispatch.arrivals import (
    Arrivals,
    HeartbeatReceived,
    JobReturned,
    StoredJobs,
    Survey,
    WorkerLeft,
    WorkerRegistered,
    WorkerShut,
)
from shunter.dispatch.plan import Plan
from shunter.dispatch.state import DispatcherState, Member
from shunter.dispatch.verdict import is_run_of
from shunter.model.final_failure import hooked_types
from shunter.model.job import Effects, Job
from shunter.model.lease import has_lapsed
from shunter.model.report import Held
from shunter.model.worker import Worker

Lose = Callable[[Job, JobReturned, Plan], None]


class Membership:
    """Decides about workers, for one dispatcher; `lose` takes a job back from one."""

    def __init__(self, state: DispatcherState, lose: Lose) -> None:
        self._state = state
        self._lose = lose

    # ---- who may be given jobs

    def follow(self, arrivals: Arrivals, plan: Plan) -> None:
        """Take over who came, who left and who is to be left alone, in that order.

        Of one that left and came back it stays known what it was sent since: that was started by
        a write that was under way meanwhile.
        """
        last = _last_of_each(arrivals)
        for event in arrivals.membership:
            match event:
                case WorkerRegistered():
                    self._introduce(event, plan)
                case WorkerLeft(worker_id) if last[worker_id] is event:
                    self._state.remove(worker_id)
                case WorkerShut():
                    self._shut(event, plan)
        for worker_id, window in arrivals.windows.items():
            self._state.roster.adjust(worker_id, window=window)

    def _introduce(self, arrival: WorkerRegistered, plan: Plan) -> None:
        worker, state = arrival.worker, self._state
        once = {it.type for it in worker.handlers if it.effects == Effects.AT_MOST_ONCE}
        shows = worker.kind.traits.lists_jobs
        blind = {it.type for it in worker.handlers if not (shows and it.sees_parents)}
        member = Member(
            worker,
            arrival.link,
            arrival.received,
            at_most_once=frozenset(once),
            blind=frozenset(blind),
        )
        state.members[worker.id] = member
        state.roster.enlist(worker.id, worker.handlers, arrival.window)
        state.heed_drain(worker)
        state.expect_waiting(worker)
        state.hooked |= hooked_types([worker])
        state.limits.declare(worker)
        plan.workers.append(worker)
        if arrival.beat is not None:
            plan.pongs.append((arrival.link, worker.id, arrival.beat))

    def _shut(self, shut: WorkerShut, plan: Plan) -> None:
        if member := self._state.members.get(shut.worker_id):
            if shut.until is None:
                member.unreachable_since = plan.now
            else:
                member.full_until = shut.until
            self._state.roster.adjust(shut.worker_id, is_open=False)

    def resign(self, worker_id: str, plan: Plan) -> None:
        if member := self._state.members.get(worker_id):
            member.worker = replace(member.worker, is_resigned=True, last_pinged=plan.now)
            plan.workers.append(member.worker)
            self._state.roster.adjust(worker_id, window=0)

    # ---- what each of them has

    def reconcile(self, arrival: WorkerRegistered, stored: StoredJobs, plan: Plan) -> None:
        """Compare all that the store says the worker has with all that it has.

        What we did not know of when the worker spoke may have been started since, by another
        dispatcher: the heartbeats will tell.
        """
        worker, state = arrival.worker, self._state
        if worker.id not in state.members:
            return
        believed = {job.id: job for job in stored.held_by.get(worker.id, ())}
        for job in believed.values():
            if job.id in plan.changes:
                continue
            held = Held(job.id, job.attempt)
            if held in arrival.held or not self._is_missing(job, arrival):
                state.adopt(job, now=plan.now)
            else:
                reason = f"worker {worker.id} came back without it"
                self._lose(job, JobReturned(worker.id, held, reason, True), plan)
        for held in sorted(arrival.held):
            if held.job_id not in believed:
                self._disown(held, worker.id, stored, plan)
            elif believed[held.job_id].attempt != held.attempt:
                plan.cancels[worker.id].append(held)

    def _is_missing(self, job: Job, arrival: WorkerRegistered) -> bool:
        """True if the run was known so long before the worker spoke that it must have had it.

        A worker that lists nothing has nothing, but for what was sent to it after it spoke.
        """
        lists_jobs = arrival.worker.kind.traits.lists_jobs
        known = self._state.running.get(job.id)
        if known is None or known.attempt != job.attempt:
            return not lists_jobs
        age = arrival.received - self._state.known_since(known)
        return age >= (self._state.rules.forgotten_after if lists_jobs else 0.0)

    def beat(self, arrival: HeartbeatReceived, stored: StoredJobs, plan: Plan) -> None:
        """Renew a worker's lease, and compare what it has with what we know of.

        A heartbeat that waited here until its worker must have given up renews nothing: the
        worker counts from when it was sent, and would be taken for alive by all others.
        """
        worker_id, state = arrival.worker_id, self._state
        member = state.members.get(worker_id)
        if member is None or plan.now - arrival.received >= state.rules.lease.worker_gives_up:
            return
        if _ends_silence(state, member, arrival):
            member.lists_from = arrival.received + state.rules.forgotten_after
        member.heard_at = arrival.received
        state.roster.adjust(worker_id, is_open=True)
        plan.renewed.add(worker_id)
        plan.pongs.append((member.link, worker_id, arrival.beat))
        just_read = {job.id: job for job in stored.held_by.get(worker_id, ())}
        for job_id in missing_from(state, arrival):
            if job_id in plan.changes:
                continue
            job = state.running.get(job_id)
            in_store = stored.jobs.get(job_id) or just_read.get(job_id)
            if job is not None and is_run_of(in_store, worker_id, Held(job_id, job.attempt)):
                reason = f"worker {worker_id} does not know of it"
                held = Held(job_id, job.attempt)
                self._lose(in_store, JobReturned(worker_id, held, reason, True), plan)
            else:
                state.forget_on(worker_id, job_id)
        for held in sorted(arrival.held):
            if is_run_of(state.running.get(held.job_id), worker_id, held):
                continue
            in_store = stored.jobs.get(held.job_id)
            if held.job_id not in plan.changes and is_run_of(in_store, worker_id, held):
                state.adopt(in_store, now=plan.now)
            else:
                self._disown(held, worker_id, stored, plan)

    def _disown(self, held: Held, worker_id: str, stored: StoredJobs, plan: Plan) -> None:
        """Have a worker stop a run that is not the job's; jobs of other stores are not ours."""
        if held.job_id in stored.jobs and held.job_id not in plan.changes:
            plan.cancels[worker_id].append(held)

    # ---- all workers of the store

    def bury(self, survey: Survey, stored: StoredJobs, plan: Plan) -> None:
        """Declare workers dead whose lease is over, and take back what they had."""
        state = self._state
        self._suspend_silent(plan)
        state.heartbeats.keep_only({worker.id for worker in survey.workers})
        for worker in lapsed(state, survey, now=plan.now):
            silent_for = silence_of(state, worker, now=plan.now)
            reason = f"silent for {silent_for:.1f} s, its lease has lapsed"
            if not worker.is_dead and not worker.is_resigned:
                plan.workers.append(replace(worker, is_dead=True, last_error=reason, jobs=()))
                state.counters["workers_died"] += 1
                state.remove(worker.id)
            for job in stored.held_by.get(worker.id, ()):
                if job.id in worker.jobs and job.id not in plan.changes:
                    held = Held(job.id, job.attempt)
                    text = f"worker {worker.id} was {reason}"
                    self._lose(job, JobReturned(worker.id, held, text, True), plan)

    def _suspend_silent(self, plan: Plan) -> None:
        """Give no new jobs to workers that were silent for a while; forget lapsed ones."""
        state, rules = self._state, self._state.rules
        for worker_id, member in list(state.members.items()):
            if not member.worker.kind.traits.lists_jobs:
                continue
            if has_lapsed(member.heard_at, rules.lease, now=plan.now):
                state.remove(worker_id)
            elif plan.now - member.heard_at >= rules.silent_after:
                state.roster.adjust(worker_id, is_open=False)


def _last_of_each(arrivals: Arrivals) -> dict[str, WorkerRegistered | WorkerLeft]:
    """Return for each worker that came or left which of the two it did last."""
    last: dict[str, WorkerRegistered | WorkerLeft] = {}
    for event in arrivals.membership:
        match event:
            case WorkerRegistered():
                last[event.worker.id] = event
            case WorkerLeft(worker_id):
                last[worker_id] = event
    return last


def missing_from(state: DispatcherState, arrival: HeartbeatReceived) -> set[str]:
    """Return the jobs that the worker should have listed: it has had them long enough.

    What comes first after a silence was sent before it, perhaps: it may have been stuck on a
    connection that the worker has closed since. Nothing is missing from such a list.
    """
    member = state.members.get(arrival.worker_id)
    if member is not None and (
        arrival.received < member.lists_from or _ends_silence(state, member, arrival)
    ):
        return set()
    has = {held.job_id for held in arrival.held}
    sent_before = arrival.received - state.rules.forgotten_after
    return {
        job_id
        for job_id in state.roster.held(arrival.worker_id) - has
        if (job := state.running.get(job_id)) is None or state.known_since(job) <= sent_before
    }


def _ends_silence(state: DispatcherState, member: Member, arrival: HeartbeatReceived) -> bool:
    return arrival.received - member.heard_at >= state.rules.silent_after


def strangers_in(state: DispatcherState, arrival: HeartbeatReceived) -> set[Held]:
    """Return runs on which a heartbeat and our memory have disagreed for a while.

    Of most that do, nothing follows: they came from another dispatcher over this store and are
    over before the next beat, or are still on their way to the worker.
    """
    running, member = state.running, state.members.get(arrival.worker_id)
    strange = {
        held
        for held in arrival.held
        if not is_run_of(running.get(held.job_id), arrival.worker_id, held)
    }
    if member is None:
        return strange
    at = arrival.received
    member.strange = {held: member.strange.get(held, at) for held in strange}
    since = at - state.rules.lease.heartbeat
    return {held for held, heard_at in member.strange.items() if heard_at <= since}


def silence_of(state: DispatcherState, worker: Worker, *, now: float) -> float:
    """Return for how long at least a worker has not been heard by anybody.

    As long as its heartbeat was seen unchanged; and where all clocks are known, as long ago as
    it was written by the one that is furthest behind. So a dispatcher that has just started need
    not watch for long.
    """
    watched = state.heartbeats.unchanged_for(worker.id, worker.last_pinged, now=now)
    if state.most_ahead is None:
        return watched
    return max(watched, now - worker.last_pinged - state.most_ahead)


def lapsed(state: DispatcherState, survey: Survey, *, now: float) -> Iterator[Worker]:
    """Yield workers whose jobs may be taken back: their heartbeat has not changed for so long.

    Nothing is decided on a survey that is old itself.
    """
    terms = state.rules.lease
    if now - survey.as_of >= terms.worker_gives_up:
        return
    for worker in survey.workers:
        if not worker.kind.traits.lists_jobs:
            continue
        silent_for = silence_of(state, worker, now=now)
        member = state.members.get(worker.id)
        is_heard = member is not None and not has_lapsed(member.heard_at, terms, now=now)
        is_over = silent_for >= terms.dispatcher_takes_over and not worker.is_resigned
        is_left_with_jobs = bool(worker.jobs) and (
            worker.is_dead or silent_for >= terms.dispatcher_takes_over
        )
        if not is_heard and (is_left_with_jobs or (is_over and not worker.is_dead)):
            yield worker
