"""All that a dispatcher decides in a turn, without waiting for anything.

Given what arrived, what the store says about the jobs concerned, and the desk, it fills a plan.
It changes the desk only where a fact is certain without a commit: a worker that reports a job
has a free place. Pure: no clock, no store, no sockets. Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from shunter.dispatch.arrivals import (
    Arrivals,
    Beaten,
    CancelAsked,
    GivenBack,
    Introduced,
    Reported,
    Unasked,
)
from shunter.dispatch.desk import Desk, Member
from shunter.dispatch.placing import Placing
from shunter.dispatch.plan import Change, Plan
from shunter.dispatch.rules import Rules
from shunter.dispatch.sharing import take_survey
from shunter.dispatch.verdict import ended, is_run_of, is_sensible, with_progress
from shunter.errors import JobError, JobNotFound, JobRefused
from shunter.model import lifecycle
from shunter.model.job import Job, Status
from shunter.model.worker import WorkerKind
from shunter.wire.messages import Advance, Held, Receipt, Report
from shunter.wire.udp.naming import task_id_of

Refused = Callable[[str, JobError], None]


class Planner:
    """Decides for one dispatcher."""

    def __init__(
        self,
        dispatcher_id: str,
        desk: Desk,
        rules: Rules,
        *,
        spread: Callable[[], float],
        counters: Counter[str],
        on_refused: Refused,
    ) -> None:
        self._id = dispatcher_id
        self._desk = desk
        self._rules = rules
        self._spread = spread
        self._counters = counters
        self._on_refused = on_refused
        self._placing = Placing(dispatcher_id, desk, rules, counters=counters)

    def plan(self, arrivals: Arrivals, stored: Mapping[str, Job], *, now: float) -> Plan:
        """Decide on all arrivals. `stored` is what the store says of jobs not on the desk."""
        plan = Plan(now)
        for survey in arrivals.surveyed:
            take_survey(self._desk, survey, now=now)
        for arrival in arrivals.introduced:
            self._introduce(arrival, plan)
        progress = {(advance.job_id, advance.attempt): advance for _, advance in arrivals.advanced}
        for reported in arrivals.reported:
            last = progress.get((reported.report.job_id, reported.report.attempt))
            self._report(reported, stored, plan, last)
        for unasked in arrivals.unasked:
            self._attribute(unasked, arrivals, stored, plan)
        for given_back in arrivals.given_back:
            self._take_back(given_back, stored, plan)
        for arrival in arrivals.introduced:
            self._reconcile_all(arrival, arrivals, stored, plan)
        for beaten in arrivals.beaten.values():
            self._beat(beaten, stored, plan)
        plan.renewed |= arrivals.heard
        for worker_id in arrivals.resigned:
            self._resign(worker_id, plan)
        for job in arrivals.due.values():
            self._look_at(job, plan)
        for job in arrivals.changed_elsewhere:
            self._catch_up(job, plan)
        for claimed in arrivals.unplaced:
            self._placing.take_again(claimed, stored)
        for ask in arrivals.cancel_asked:
            self._cancel(ask, stored, plan)
        for worker_id, advance in arrivals.advanced:
            self._advance(worker_id, advance, plan)
        self._placing.start_claimed(plan)
        for submitted in arrivals.submitted:
            self._placing.insert(submitted, plan)
        plan.claims = list(self._placing.claims(now))
        return plan

    # ---- workers

    def _introduce(self, arrival: Introduced, plan: Plan) -> None:
        worker, desk = arrival.worker, self._desk
        desk.members[worker.id] = Member(worker, arrival.link, plan.now)
        desk.roster.enlist(worker.id, worker.handlers, arrival.window)
        desk.waiting |= {handler.type for handler in worker.handlers}
        plan.workers.append(worker)
        if arrival.beat is not None:
            plan.pongs.append((arrival.link, worker.id, arrival.beat))

    def _reconcile_all(
        self,
        arrival: Introduced,
        arrivals: Arrivals,
        stored: Mapping[str, Job],
        plan: Plan,
    ) -> None:
        """Compare all that the store says the worker has with all that it has.

        A job that was started a moment ago, perhaps by another dispatcher, may still be on its
        way to the worker: the heartbeats will tell. Others have nothing on their way.
        """
        worker_id = arrival.worker.id
        says_what_it_has = arrival.worker.kind is WorkerKind.FULL
        grace = self._rules.forgotten_after if says_what_it_has else 0.0
        believed = {job.id: job for job in arrivals.held_in_store.get(worker_id, ())}
        for job in believed.values():
            if job.id in plan.changes:
                continue
            assert job.execution.started is not None
            is_on_its_way = plan.now - job.execution.started < grace
            if is_on_its_way or Held(job.id, job.attempt) in arrival.held:
                self._desk.adopt(job)
            else:
                reason = f"worker {worker_id} came back without it"
                self._lose(job, worker_id, reason, plan)
        for held in arrival.held:
            if held.job_id not in believed:
                self._disown(held, worker_id, stored, plan)
            elif believed[held.job_id].attempt != held.attempt:
                plan.cancels[worker_id].append(held)

    def _beat(self, arrival: Beaten, stored: Mapping[str, Job], plan: Plan) -> None:
        worker_id, desk = arrival.worker_id, self._desk
        member = desk.members.get(worker_id)
        if member is None:
            return
        member.heard_at = plan.now
        desk.roster.adjust(worker_id, window=arrival.window, is_open=True)
        plan.renewed.add(worker_id)
        plan.pongs.append((member.link, worker_id, arrival.beat))
        has = {held.job_id for held in arrival.held}
        for job_id in list(desk.roster.held(worker_id)):
            job = desk.running.get(job_id)
            if job is None or job_id in has or job_id in plan.changes:
                continue
            assert job.execution.started is not None
            if plan.now - job.execution.started < self._rules.forgotten_after:
                continue
            in_store = stored.get(job_id)
            if is_run_of(in_store, worker_id, Held(job_id, job.attempt)):
                self._lose(in_store, worker_id, f"worker {worker_id} does not know of it", plan)
            else:
                desk.forget(job_id)
        for held in arrival.held:
            if is_run_of(desk.running.get(held.job_id), worker_id, held):
                continue
            in_store = stored.get(held.job_id)
            if held.job_id not in plan.changes and is_run_of(in_store, worker_id, held):
                desk.adopt(in_store)
            else:
                self._disown(held, worker_id, stored, plan)

    def _disown(self, held: Held, worker_id: str, stored: Mapping[str, Job], plan: Plan) -> None:
        """Have a worker stop a run that is not the job's; jobs of other stores are not ours."""
        if held.job_id in stored and held.job_id not in plan.changes:
            plan.cancels[worker_id].append(held)

    def _resign(self, worker_id: str, plan: Plan) -> None:
        if member := self._desk.members.get(worker_id):
            member.worker = replace(member.worker, is_resigned=True, last_pinged=plan.now)
            plan.workers.append(member.worker)
            self._desk.roster.adjust(worker_id, window=0)

    # ---- reports

    def _report(
        self,
        arrival: Reported,
        stored: Mapping[str, Job],
        plan: Plan,
        last: Advance | None = None,
    ) -> None:
        worker_id, report = arrival.worker_id, arrival.report
        job = self._desk.running.get(report.job_id) or stored.get(report.job_id)
        if job is None:
            self._refuse(worker_id, JobNotFound(report.job_id))
            return
        if report.job_id in plan.changes:
            self._refuse(worker_id, JobError(report.job_id, "reported twice at once"))
            return
        try:
            lifecycle.check_holder(job, worker_id)
            job = with_progress(job, last, now=plan.now)
            changed = ended(job, report, self._rules, now=plan.now, spread=self._spread())
        except JobError as error:
            self._refuse(worker_id, error)
            return
        self._change(changed, plan, arrival)
        self._desk.roster.drop(worker_id, job.id)

    def _attribute(
        self, arrival: Unasked, arrivals: Arrivals, stored: Mapping[str, Job], plan: Plan
    ) -> None:
        """Find the job of a result that came without one: such a worker has one at most."""
        worker_id = arrival.worker_id
        match arrivals.held_in_store.get(worker_id, []):
            case [job] if job.id not in plan.changes and _may_be_of(arrival, job):
                report = Report(job.id, job.attempt, result=arrival.result, error=arrival.error)
                self._report(Reported(worker_id, report), {**stored, job.id: job}, plan)
            case _:
                self._refuse(worker_id, JobError("(unknown)", "a result nobody waits for"))

    def _take_back(self, arrival: GivenBack, stored: Mapping[str, Job], plan: Plan) -> None:
        held, worker_id = arrival.held, arrival.worker_id
        job = self._desk.running.get(held.job_id) or stored.get(held.job_id)
        if job is None or held.job_id in plan.changes:
            return
        try:
            lifecycle.check_holder(job, worker_id)
            lifecycle.fence(job, held.attempt)
            if arrival.blame:
                self._lose(job, worker_id, arrival.reason, plan, arrival)
            else:
                back = lifecycle.returned(job, held.attempt, arrival.reason, now=plan.now)
                self._change(back, plan, arrival)
        except JobError as error:
            self._refuse(worker_id, error)

    def _lose(
        self,
        job: Job,
        worker_id: str,
        reason: str,
        plan: Plan,
        cause: GivenBack | None = None,
    ) -> None:
        cause = cause or GivenBack(worker_id, Held(job.id, job.attempt), reason, True)
        again = lifecycle.lost(
            job,
            job.attempt,
            reason,
            now=plan.now,
            spread=self._spread(),
            max_losses=self._rules.max_losses,
        )
        self._counters["jobs_lost"] += 1
        self._change(again, plan, cause)

    def _advance(self, worker_id: str, advance: Advance, plan: Plan) -> None:
        job = self._desk.running.get(advance.job_id)
        if job is None or job.id in plan.changes or job.execution.worker_id != worker_id:
            return
        if job.attempt == advance.attempt and is_sensible(advance):
            moved = lifecycle.progressed(
                job,
                advance.attempt,
                done=advance.done,
                total=advance.total,
                note=advance.note,
                now=plan.now,
            )
            plan.changes[job.id] = Change(moved)

    # ---- what time and people ask for

    def _look_at(self, job: Job, plan: Plan) -> None:
        """Act on an alarm: waited long enough, claimed too long, or ran too long."""
        believed = self._desk.running.get(job.id)
        is_outdated = believed is not None and believed.revision > job.revision
        if is_outdated or job.id in plan.changes or job.id in self._desk.claimed:
            return
        match job.status:
            case Status.QUEUED if job.place_by is not None and plan.now >= job.place_by:
                self._counters["jobs_unplaced"] += 1
                self._change(lifecycle.unplaced(job, now=plan.now), plan)
            case Status.QUEUED:
                plan.changes[job.id] = Change(lifecycle.came_due(job, now=plan.now))
            case Status.DISPATCHING:
                self._counters["claims_released"] += 1
                plan.changes[job.id] = Change(lifecycle.released(job, now=plan.now))
            case Status.IN_PROGRESS:
                over = lifecycle.expired(
                    job,
                    now=plan.now,
                    spread=self._spread(),
                    max_losses=self._rules.max_losses,
                )
                self._counters["jobs_expired"] += 1
                self._take_away(job, plan)
                self._change(over, plan)

    def _cancel(self, ask: CancelAsked, stored: Mapping[str, Job], plan: Plan) -> None:
        job = self._desk.running.get(ask.job_id) or stored.get(ask.job_id)
        receipt = Receipt(ask.job_id)
        try:
            if job is None:
                raise JobNotFound(ask.job_id)
            if ask.job_id in plan.changes:
                raise JobRefused(ask.job_id, "status", "it is changing right now; ask again")
            stoppable = self._desk.is_stoppable(job.execution.worker_id)
            stopped = lifecycle.cancelled(job, now=plan.now, stoppable=stoppable)
        except JobError as error:
            receipt = Receipt(ask.job_id, "id" if job is None else "status", str(error))
        else:
            self._desk.claimed.pop(job.id, None)
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
        if not self._desk.is_stoppable(worker_id):
            self._desk.roster.adjust(worker_id, window=0)

    def _catch_up(self, job: Job, plan: Plan) -> None:
        """Follow what another dispatcher made of a job that a worker of ours runs."""
        believed = self._desk.running.get(job.id)
        if believed is None or believed.revision >= job.revision or job.id in plan.changes:
            return
        worker_id, held = believed.execution.worker_id, Held(believed.id, believed.attempt)
        assert worker_id is not None
        if is_run_of(job, worker_id, held):
            self._desk.adopt(job)
            if not job.cancel_requested:
                return
        else:
            self._desk.forget(job.id)
        plan.cancels[worker_id].append(held)

    # ---- shared

    def _change(self, job: Job, plan: Plan, cause: Reported | GivenBack | None = None) -> None:
        """Plan a job's next state; a run that is over frees its place at once."""
        plan.changes[job.id] = Change(job, cause)
        if job.status is not Status.IN_PROGRESS:
            self._desk.forget(job.id)

    def _refuse(self, worker_id: str, error: JobError) -> None:
        self._counters["reports_refused"] += 1
        self._on_refused(worker_id, error)


def _may_be_of(arrival: Unasked, job: Job) -> bool:
    """Tell whether nothing that the worker said speaks against this job, or this run of it."""
    is_named = arrival.task_id in (None, task_id_of(job))
    return is_named and arrival.attempt in (None, job.attempt)
