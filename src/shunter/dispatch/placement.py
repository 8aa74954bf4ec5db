"""How jobs get to workers: submitted ones, claimed ones, and those yet to be claimed. Pure.

A worker that only this dispatcher gives jobs to is a safe choice: the job is started by the very
write that stores or claims it. A worker that all dispatchers share is chosen by the others as
well, so a job for it is claimed first, and then started on one of the worker's places: of two
dispatchers that take the same place one is refused by the store, and looks for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from shunter.dispatch.arrivals import StoredJobs, Submitted, Submitter
from shunter.dispatch.graph_intake import graph_of, is_graph
from shunter.dispatch.intake import admit
from shunter.dispatch.plan import Change, GraphInsertion, Insertion, Plan, graph_refused
from shunter.dispatch.roster import Opening, Types
from shunter.dispatch.state import DispatcherState
from shunter.errors import JobRefused
from shunter.model import lifecycle
from shunter.model.final_failure import hook_job
from shunter.model.job import Job, Status
from shunter.model.journal import COPIED
from shunter.model.lane_claim import LanePlace
from shunter.model.lifecycle import WorkerSlot
from shunter.model.queue_order import is_ready
from shunter.model.resubmission import check_rerun, with_callback
from shunter.model.submission import Receipt, Submission
from shunter.store.port import CLAIM_BYTES, Claim

PATIENCE_SECONDS = 1.0
"""How long a claimed job waits here for a place before it goes back to the queue."""

COOLED_PATIENCE_SECONDS = 4.0
"""The same after a cooldown, in which the place may have gone round all dispatchers of a worker.
It is less than the 5 s after which a claim expires."""

NO_PLACE = LanePlace()
"""What a job of a type without limits occupies."""


class Placement:
    """Places jobs for one dispatcher."""

    def __init__(self, state: DispatcherState) -> None:
        self._id = state.id
        self._state = state
        self._rules = state.rules
        self._counters = state.counters

    def start_claimed(self, plan: Plan) -> None:
        """Place the jobs that were claimed, once their cooldown is over."""
        patience = COOLED_PATIENCE_SECONDS if self._rules.cooldown else PATIENCE_SECONDS
        for job in list(self._state.claimed.values()):
            assert job.dispatcher is not None
            ripe_at = job.dispatcher.date + self._rules.cooldown
            if plan.now < ripe_at or job.id in plan.changes:
                continue
            is_paused = job.type in self._state.pauses.types
            worker_id = None if is_paused else self._state.roster.place(job.type, job.id)
            if worker_id is not None:
                started = lifecycle.started(job, self._slot(worker_id, job.id), now=plan.now)
                plan.changes[job.id] = Change(started, claimed=job)
            elif is_paused or plan.now > ripe_at + patience:
                plan.changes[job.id] = Change(lifecycle.released(job, now=plan.now))
            else:
                continue
            del self._state.claimed[job.id]

    def take_again(self, claimed: Job, stored: StoredJobs) -> None:
        """Keep a claimed job whose start was refused, if it is still ours to start."""
        now = stored.jobs.get(claimed.id)
        if now is None or now.status is not Status.DISPATCHING or not self._state.is_ours(now):
            return
        if now.dispatcher == claimed.dispatcher:
            again = replace(now, payload=claimed.payload, parents=claimed.parents)
            self._state.claimed[claimed.id] = again

    def tell_dependents(self, stored: StoredJobs, plan: Plan) -> None:
        """Tell the dependents of jobs that have ended; those that are woken may be claimed.

        So may the jobs that call hooks for them, which are stored together with their outcomes.
        """
        queue = self._state.dependents
        for job in queue.plan(stored.edges, stored.jobs, stored.standings, plan):
            lane = self._state.limits.lane(job)
            plan.changes[job.id] = Change(replace(job, lane=lane))
            if job.wait_until is None:
                self._state.waiting.add(job.type)
        hooks = [hook_job(it, now=plan.now) for it in queue.told_next if it.hook_job is not None]
        if hooks:
            plan.insertions.append(Insertion(hooks, [None] * len(hooks), lambda receipts: None))
            self._state.waiting |= {job.type for job in hooks}

    def insert(self, submitted: Submitted, stored: StoredJobs, plan: Plan) -> None:
        """Admit what was submitted, and start it at once where there is room."""
        if submitted.is_whole or is_graph(submitted.submissions):
            self._insert_graph(submitted, stored, plan)
            return
        insertion = Insertion([], [], submitted.answer, submitted.on_stored)
        for submission, submitter in zip(submitted.submissions, submitted.submitters, strict=True):
            try:
                if submission.rerun_of is not None:
                    submission, submitter = self._rerun(submission, submitter, stored)
                job = self._admit(submission, submitter, plan)
            except JobRefused as refusal:
                self._counters["submissions_refused"] += 1
                insertion.receipts.append(Receipt(submission.id, refusal.field, str(refusal)))
            else:
                insertion.jobs.append(job)
                insertion.receipts.append(None)
                if submission.journal is not None:
                    plan.entries += [
                        replace(entry, job_id=job.id, attempt=COPIED)
                        for entry in submission.journal
                    ]
        plan.insertions.append(insertion)

    def _insert_graph(self, submitted: Submitted, stored: StoredJobs, plan: Plan) -> None:
        """Admit a graph as a whole; its first jobs may be claimed by the commit that stores it."""
        submitters = iter(submitted.submitters)

        def admitted(submission: Submission) -> Job:
            submitter = next(submitters)
            if submission.rerun_of is not None:
                submission, submitter = self._rerun(submission, submitter, stored)
            return self.admitted(submission, submitter, plan.now)

        try:
            scope = submitted.submitters[0].scope
            graph = graph_of(submitted.submissions, admitted, scope)
        except JobRefused as refusal:
            self._counters["submissions_refused"] += len(submitted.submissions)
            ids = [submission.id for submission in submitted.submissions]
            receipts: list[Receipt | None] = [*graph_refused(ids, refusal)]
            plan.insertions.append(Insertion([], receipts, submitted.answer))
            return
        self._state.waiting |= {job.type for job in graph.jobs if is_ready(job)}
        plan.graphs.append(GraphInsertion(graph, submitted.answer, submitted.on_stored))

    def _rerun(
        self, submission: Submission, submitter: Submitter, stored: StoredJobs
    ) -> tuple[Submission, Submitter]:
        """Return a rerun as it is to be admitted: it is of the namespace of the first job."""
        job_id = submission.rerun_of or ""
        original = self._state.running.get(job_id) or stored.jobs.get(job_id)
        check_rerun(submission, original, submitter.scope)
        assert original is not None
        submission = with_callback(submission, original)
        return submission, replace(submitter, namespace=original.namespace)

    def admitted(self, submission: Submission, submitter: Submitter, now: float) -> Job:
        """Return a submission as a queued job, or raise JobRefused."""
        roster = self._state.roster
        return admit(
            submission,
            submitter,
            rules=self._rules.intake,
            handler=roster.handler(submission.type),
            known_types=roster.types() if self._rules.intake.refuse_unknown_types else set(),
            now=now,
            limits=self._state.limits.of(submission.type),
        )

    def _admit(self, submission: Submission, submitter: Submitter, plan: Plan) -> Job:
        """Return a job as it is to be stored: started where there is room, and else queued.

        Under limits it starts on places that are likely to be free; where one is not, the store
        puts it into the queue.
        """
        roster, now = self._state.roster, plan.now
        job = self.admitted(submission, submitter, now)
        if job.wait_until is not None:
            return job
        if job.type in self._state.waiting:
            if job.lane is not None:
                self._state.limits.queued(job)
            return job
        is_later = self._rules.cooldown or self._state.clogged
        capacity = None if is_later else roster.freest(job.type)
        place: LanePlace | None = NO_PLACE
        if capacity is not None and job.lane is not None:
            running = len(self._state.running)
            place = self._state.limits.take_place(job, running=running)
        if capacity is None or place is None:
            self._state.waiting.add(job.type)
            self._state.limits.queued(job)
            return job
        mine = lifecycle.claimed(job, dispatcher_id=self._id, now=now)
        if job.lane is not None:
            plan.otherwise[job.id] = job
        if capacity.is_shared:
            return mine if job.lane is None else lifecycle.occupying(mine, place)
        roster.hold(capacity.worker_id, job.id)
        return lifecycle.started(mine, self._slot(capacity.worker_id, job.id), now=now, held=place)

    def claims(self, now: float) -> Iterable[Claim]:
        """Ask for waiting jobs, to be started at once unless something lies between."""
        expiry = lifecycle.claim_expiry(now, self._rules.cooldown)
        wanted = [
            (opening, types, limit)
            for opening, all_types in self._state.wanted()
            for types, limit in self._shares(opening, all_types)
        ]
        for opening, types, limit in wanted:
            slots: tuple[WorkerSlot, ...] = ()
            if not self._rules.cooldown and not opening.is_shared:
                capacities = self._state.roster.reserve(opening.types, limit)
                slot_on = {worker_id: self._slot(worker_id) for worker_id in set(capacities)}
                slots = tuple(slot_on[worker_id] for worker_id in capacities)
                limit = len(slots)
            book = self._state.limits
            if (limits := book.of(types[0])) is not None:
                yield Claim(
                    dispatcher_id=self._id,
                    types=types,
                    limit=limit,
                    now=now,
                    expiry=expiry,
                    slots=slots,
                    most_bytes=CLAIM_BYTES // len(wanted),
                    limits=limits,
                    after=book.after(types[0]),
                    first=book.first_place(types[0]),
                    guess=book.guess(types[0], limits, wanted=limit, now=now),
                    is_roomy=book.is_roomy(types[0], limits, wanted=limit),
                )
                continue
            yield Claim(
                dispatcher_id=self._id,
                types=types,
                limit=limit,
                now=now,
                expiry=expiry,
                slots=slots,
                most_bytes=CLAIM_BYTES // len(wanted),
            )

    def _shares(self, opening: Opening, types: Types) -> Iterator[tuple[tuple[str, ...], int]]:
        """Divide the room of an opening: a claim for each limited type, and one for all others.

        Where there is not enough for all of them, it is theirs whose turn it is.
        """
        in_turn = self._state.by_turn(types)
        limited = [kind for kind in in_turn if self._state.limits.of(kind) is not None]
        if not limited:
            yield in_turn, min(opening.free, self._rules.claim_limit)
            return
        plain = tuple(kind for kind in in_turn if kind not in limited)
        groups = [(kind,) if kind in limited else plain for kind in in_turn]
        left, shares = opening.free, list(dict.fromkeys(groups))
        for at, group in enumerate(shares):
            share = min(-(-left // (len(shares) - at)), self._rules.claim_limit)
            if share == 0:
                return
            yield group, share
            left -= share

    def _slot(self, worker_id: str, job_id: str | None = None) -> WorkerSlot:
        member = self._state.members[worker_id]
        kind, version = member.worker.kind, member.worker.version
        if kind.traits.is_shared:
            assert job_id is not None
            place = self._state.roster.number(worker_id, job_id)
            return WorkerSlot(worker_id, place=place, version=version)
        if kind.traits.lists_jobs:
            return WorkerSlot(
                worker_id,
                expiry_grace=self._rules.expiry_grace,
                at_most_once=member.at_most_once,
                version=version,
            )
        silence = self._rules.presumed_dead_after(kind)
        return WorkerSlot(worker_id, presumed_dead_after=silence, version=version)
