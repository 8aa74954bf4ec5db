"""All that a dispatcher decides in a turn, without waiting for anything.

Given what arrived, what the store says about the jobs concerned, and the state, it fills a plan.
It changes the state only where a fact is certain without a commit: a worker that reports a job
has a free place. Pure: no clock, no store, no sockets. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from shunter.dispatch.arrivals import (
    Arrivals,
    CancelRequested,
    JobReturned,
    Reported,
    StoredJobs,
    UnattributedResult,
)
from shunter.dispatch.effects import NoteRefusal
from shunter.dispatch.journals import plan_keeps, plan_signals
from shunter.dispatch.membership import Membership
from shunter.dispatch.parks import plan_park, plan_stored
from shunter.dispatch.placement import Placement
from shunter.dispatch.plan import Change, Plan
from shunter.dispatch.shared_workers import take_survey
from shunter.dispatch.state import DispatcherState
from shunter.dispatch.verdict import ended, is_run_of, is_sensible, with_progress
from shunter.errors import JobError, JobNotFound, JobRefused
from shunter.model import lifecycle
from shunter.model.final_failure import owes_hooks, owing_hooks
from shunter.model.job import ErrorKind, Failure, Job, Status
from shunter.model.park import is_parked
from shunter.model.report import Advance, Held, Report
from shunter.model.submission import Receipt

MOST_SKEW_SECONDS = 60.0
"""The clocks of two dispatchers may differ by so much without harm."""


class Planner:
    """Decides for one dispatcher."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state
        self._rules = state.rules
        self._membership = Membership(state, self._lose)
        self._placement = Placement(state)

    def plan(self, arrivals: Arrivals, stored: StoredJobs, *, now: float) -> Plan:
        """Decide on all arrivals. `stored` is what the store says of jobs not in the state."""
        plan = Plan(arrivals, now)
        members = self._membership
        if arrivals.pauses is not None:
            self._state.heed(arrivals.pauses)
        if arrivals.is_queue_changed:
            self._state.waiting |= self._state.roster.types()
        if arrivals.limits:
            self._state.waiting |= self._state.limits.learn(arrivals.limits)
        if arrivals.tokens_due:
            self._state.limits.had_due(arrivals.tokens_due)
            self._state.waiting |= arrivals.tokens_due
        for gateway, is_clogged in arrivals.clogged.items():
            (self._state.clogged.add if is_clogged else self._state.clogged.discard)(gateway)
        if arrivals.company is not None:
            self._state.skews = arrivals.company.skews
            self._state.others = arrivals.company.alive
            self._state.most_ahead = arrivals.company.most_ahead
        plan.is_alone = not self._state.others
        for survey in arrivals.surveyed:
            take_survey(self._state, survey, now=now)
        self._state.hooked |= arrivals.hooked
        members.follow(arrivals, plan)
        progress = {(advance.job_id, advance.attempt): advance for _, advance in arrivals.advanced}
        for reported in arrivals.reported:
            last = progress.get((reported.report.job_id, reported.report.attempt))
            self._report(reported, stored, plan, last)
        for unattributed in arrivals.unattributed:
            self._attribute(unattributed, stored, plan)
        for returned in arrivals.returned_jobs:
            self._take_back(returned, stored, plan)
        for arrival in arrivals.introduced():
            members.reconcile(arrival, stored, plan)
        for beaten in arrivals.beaten.values():
            members.beat(beaten, stored, plan)
        plan.renewed |= arrivals.heard
        for survey in arrivals.surveyed:
            members.bury(survey, stored, plan)
        for worker_id in arrivals.resigned:
            members.resign(worker_id, plan)
        for job in arrivals.due.values():
            self._look_at(job, plan)
        for job in arrivals.changed_elsewhere:
            self._catch_up(job, plan)
        for claimed in arrivals.unplaced:
            self._placement.take_again(claimed, stored)
        for ask in arrivals.cancel_requests:
            self._cancel(ask, stored, plan)
        if arrivals.keep_requests:
            plan_keeps(arrivals, plan)
        if arrivals.signals:
            plan_signals(self._state, arrivals, stored, plan)
        for parked in arrivals.parks_stored:
            plan_stored(stored.jobs.get(parked.job_id), plan)
        for worker_id, advance in arrivals.advanced:
            self._advance(worker_id, advance, plan)
        if self._state.dependents.has_work:
            self._placement.tell_dependents(stored, plan)
        self._placement.start_claimed(plan)
        for submitted in arrivals.submitted:
            self._placement.insert(submitted, stored, plan)
        plan.claims = list(self._placement.claims(now))
        return plan

    # ---- reports

    def _report(
        self,
        arrival: Reported,
        stored: StoredJobs,
        plan: Plan,
        last: Advance | None = None,
        job: Job | None = None,
    ) -> None:
        worker_id, report = arrival.worker_id, arrival.report
        job = job or self._known(report.job_id, stored)
        if job is None:
            self._refuse(worker_id, JobNotFound(report.job_id), plan)
            return
        if report.job_id in plan.changes:
            self._refuse(worker_id, JobError(report.job_id, "reported twice at once"), plan)
            return
        try:
            lifecycle.check_holder(job, worker_id)
            job = with_progress(job, last, now=plan.now)
            if report.error is not None and is_parked(report.error):
                self._park(arrival, job, stored, plan)
                return
            changed = ended(job, report, self._rules, now=plan.now, jitter=self._state.jitter())
        except JobError as error:
            self._refuse(worker_id, error, plan)
            return
        self._change(changed, plan, arrival)
        self._state.roster.drop(worker_id, job.id)

    def _park(self, arrival: Reported, job: Job, stored: StoredJobs, plan: Plan) -> None:
        """Let a job wait for what its run says, or end it if that makes no sense."""
        report, there = arrival.report, stored.jobs.keys()
        lifecycle.fence(job, report.attempt)
        try:
            changed = plan_park(job, report, self._placement.admitted, there, plan)
        except JobError as error:
            refused = replace(report, result=None, error=Failure(ErrorKind.REFUSED, str(error)))
            changed = ended(job, refused, self._rules, now=plan.now, jitter=self._state.jitter())
        self._change(changed, plan, arrival)
        self._state.roster.drop(arrival.worker_id, job.id)
        if plan.parks.get(job.id) is not None:
            self._state.waiting |= {kid.type for kid in plan.graphs[-1].graph.jobs}

    def _attribute(self, arrival: UnattributedResult, stored: StoredJobs, plan: Plan) -> None:
        """Find the job of a result that came without one: such a worker has one at most."""
        worker_id = arrival.worker_id
        match stored.held_by.get(worker_id, []):
            case [job] if job.id not in plan.changes and arrival.may_be_of(job):
                report = Report(
                    job.id,
                    job.attempt,
                    result=arrival.result,
                    error=arrival.error,
                    retry=arrival.retry,
                )
                self._report(Reported(worker_id, report), stored, plan, job=job)
            case _:
                self._refuse(worker_id, JobError("(unknown)", "a result nobody waits for"), plan)

    def _take_back(self, arrival: JobReturned, stored: StoredJobs, plan: Plan) -> None:
        held, worker_id = arrival.held, arrival.worker_id
        job = self._known(held.job_id, stored)
        if job is None or held.job_id in plan.changes:
            return
        try:
            lifecycle.check_holder(job, worker_id)
            lifecycle.fence(job, held.attempt)
            if arrival.blame:
                self._lose(job, arrival, plan)
            else:
                back = lifecycle.returned(
                    job,
                    held.attempt,
                    arrival.reason,
                    now=plan.now,
                    may_have_begun=arrival.may_have_begun,
                )
                self._change(back, plan, arrival)
        except JobError as error:
            self._refuse(worker_id, error, plan)

    def _lose(self, job: Job, cause: JobReturned, plan: Plan) -> None:
        again = lifecycle.lost(
            job,
            job.attempt,
            cause.reason,
            now=plan.now,
            jitter=self._state.jitter(),
            max_losses=self._rules.max_losses,
        )
        self._state.counters["jobs_lost"] += 1
        self._change(again, plan, cause)

    def _advance(self, worker_id: str, advance: Advance, plan: Plan) -> None:
        job = self._state.running.get(advance.job_id)
        if job is None or job.id in plan.changes or job.execution.worker_id != worker_id:
            return
        if job.attempt == advance.attempt and is_sensible(advance):
            moved = lifecycle.progressed(
                job,
                advance.attempt,
                done=advance.done,
                total=advance.total,
                note=advance.note,
                waited=advance.waited,
                now=plan.now,
            )
            plan.changes[job.id] = Change(moved)

    # ---- what time and people ask for

    def _look_at(self, job: Job, plan: Plan) -> None:
        """Act on an alarm: waited long enough, claimed too long, or ran too long."""
        believed = self._state.running.get(job.id)
        is_outdated = believed is not None and believed.revision > job.revision
        if is_outdated or job.id in plan.changes or job.id in self._state.claimed:
            return
        is_waiting = job.status in (Status.QUEUED, Status.WAITING)
        if not is_waiting and not self._is_over(job, now=plan.now):
            return
        self._state.expiries.forget(job.id)
        match job.status:
            case Status.QUEUED if job.place_by is not None and plan.now >= job.place_by:
                self._state.counters["jobs_unplaced"] += 1
                self._change(lifecycle.unplaced(job, now=plan.now), plan)
            case Status.WAITING:
                self._state.waiting.add(job.type)
                self._change(lifecycle.woken(job, now=plan.now), plan)
            case Status.QUEUED:
                plan.changes[job.id] = Change(lifecycle.came_due(job, now=plan.now))
            case Status.DISPATCHING:
                self._state.counters["claims_released"] += 1
                plan.changes[job.id] = Change(lifecycle.released(job, now=plan.now))
            case Status.IN_PROGRESS:
                over = lifecycle.expired(
                    job,
                    now=plan.now,
                    jitter=self._state.jitter(),
                    max_losses=self._rules.max_losses,
                )
                self._state.counters["jobs_expired"] += 1
                self._take_away(job, plan)
                self._change(over, plan)

    def _is_over(self, job: Job, *, now: float) -> bool:
        """True if a claim or run has lasted too long, by our own clock.

        What another dispatcher began is timed by its clock, which may be behind ours: so it is
        watched until it has lasted as long as it may, or as long as clocks may differ.
        """
        if self._state.is_ours(job):
            return True
        if job.status is Status.DISPATCHING:
            begun, end = (job.dispatcher.date, job.dispatcher.expiry) if job.dispatcher else (0, 0)
        else:
            begun, end = job.execution.given_at or 0.0, job.execution.expiry or 0.0
        watched_for = self._state.expiries.unchanged_for(job.id, job.attempt, now=now)
        skew = self._state.skew_of(job)
        if skew is not None:
            return now - skew >= end
        return watched_for >= min(max(0.0, end - begun), MOST_SKEW_SECONDS)

    def _cancel(self, ask: CancelRequested, stored: StoredJobs, plan: Plan) -> None:
        job = self._known(ask.job_id, stored)
        receipt = Receipt(ask.job_id)
        try:
            if job is None or not ask.scope.shows(job):
                job = None
                raise JobNotFound(ask.job_id)
            if ask.job_id in plan.changes:
                raise JobRefused(ask.job_id, "status", "it is changing right now; ask again")
            if job.status.is_final:
                raise JobRefused(
                    ask.job_id,
                    "status",
                    f"it is {job.status.word} already and can't be cancelled any more; its record "
                    "says how it ended",
                )
            stoppable = self._state.is_stoppable(job.execution.worker_id)
            stopped = lifecycle.cancelled(job, now=plan.now, stoppable=stoppable)
        except JobError as error:
            receipt = Receipt(ask.job_id, "id" if job is None else "status", str(error))
        else:
            self._state.claimed.pop(job.id, None)
            self._take_away(job, plan)
            self._change(stopped, plan)
        plan.cancelled.append((ask, receipt))

    def _take_away(self, job: Job, plan: Plan) -> None:
        """Have a worker stop a run.

        One that can't be told goes on with it: it gets nothing until it has spoken, or its late
        result would be taken for that of its next job.
        """
        worker_id = job.execution.worker_id
        if worker_id is None or job.status is not Status.IN_PROGRESS:
            return
        plan.cancels[worker_id].append(Held(job.id, job.attempt))
        if not self._state.is_stoppable(worker_id):
            self._state.roster.adjust(worker_id, window=0)

    def _catch_up(self, job: Job, plan: Plan) -> None:
        """Follow what another dispatcher made of a job that a worker of ours runs."""
        believed = self._state.running.get(job.id)
        if believed is None or believed.revision >= job.revision or job.id in plan.changes:
            return
        worker_id, held = believed.execution.worker_id, Held(believed.id, believed.attempt)
        assert worker_id is not None
        if is_run_of(job, worker_id, held):
            self._state.adopt(job, now=plan.now)
            if not job.cancel_requested:
                return
        else:
            self._state.forget(job.id)
            if job.lane is not None:
                self._state.waiting.add(job.type)  # it may have left its places
        plan.cancels[worker_id].append(held)

    # ---- shared

    def _known(self, job_id: str, stored: StoredJobs) -> Job | None:
        """Return a job as we know it, or as the store does if that is newer."""
        known, found = self._state.running.get(job_id), stored.jobs.get(job_id)
        if known is None or (found is not None and found.revision > known.revision):
            return found
        return known

    def _change(self, job: Job, plan: Plan, cause: Reported | JobReturned | None = None) -> None:
        """Plan a job's next state; a run that is over frees its place at once.

        The write that ends a job for good also says who is to call its app's hooks for that.
        """
        if owes_hooks(job) and job.type in self._state.hooked:
            job = owing_hooks(job)
        plan.changes[job.id] = Change(job, cause)
        if job.status is not Status.IN_PROGRESS:
            self._state.forget(job.id)

    def _refuse(self, worker_id: str, error: JobError, plan: Plan) -> None:
        self._state.counters["reports_refused"] += 1
        plan.refusals.append(NoteRefusal(worker_id, error))
