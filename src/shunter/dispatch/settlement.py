"""What follows from a turn once the store has answered. Pure: effects are returned.

The state is brought up to date with what was written. A write that lost to another one is not
repeated: what led to it is decided again, on what the store says then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from shunter.dispatch.arrivals import JobReturned, Stored
from shunter.dispatch.effects import (
    AnswerCancel,
    AnswerHeartbeat,
    AnswerSubmission,
    ConfirmReports,
    DecideAgain,
    DeliverOutcomes,
    Effect,
    HandOver,
    NoteFailure,
    PlaceAgain,
    SendJobs,
    StopRuns,
)
from shunter.dispatch.journals import journal_answers
from shunter.dispatch.parks import stored_parks
from shunter.dispatch.plan import Change, GraphInsertion, Insertion, Plan
from shunter.dispatch.state import DispatcherState
from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model.job import FINAL, Job, Status
from shunter.model.lifecycle import Event
from shunter.model.queue_order import UNDER_WAY
from shunter.model.report import Held
from shunter.store.port import Claim, Committed

MAX_TRIES = 5
"""How often an arrival is decided again after losing a compare-and-swap."""

NOTICEABLE_SECONDS = 0.1
"""A start that took the store longer counts from when it was written, whatever its record says."""

MOST_KEPT_BACK = 5
"""A job that has come back so often is sent, however long its start took."""

_COUNTERS = {status: f"jobs_{status.word}" for status in FINAL}


class Settlement:
    """One turn's results, as they are taken in."""

    def __init__(self, state: DispatcherState, plan: Plan, *, now: float) -> None:
        self._state = state
        self._plan = plan
        self._now = now
        self._is_late = now - plan.now >= state.rules.sent_within and bool(state.others)
        self._started: defaultdict[str, list[Job]] = defaultdict(list)
        self._ended: list[Job] = []
        self._lost_races: set[str] = set()
        self._answers: list[Effect] = []
        self._again: list[Effect] = []
        self._callbacks: list[Effect] = []
        self._failed: list[Effect] = []

    def effects(self, committed: Committed) -> list[Effect]:
        """Bring the state up to date, and return what is to be done, in order.

        Heartbeats are answered before jobs follow from them, and so are reports confirmed to
        whom jobs are sent: a calculator takes no job before its last report is confirmed. Then
        goes what somebody waits for, that with the longest way before it first. Receipts go
        before results, since a receipt may say that a job is another one, long ended.
        """
        state, plan = self._state, self._plan
        for change, was_written in zip(plan.changes.values(), committed.replaced, strict=True):
            if was_written:
                self._written(_as_told(change.job, committed))
                if change.cause is not None:
                    state.timings.ran(change.job)
                    if change.job.lane is not None and change.job.status not in UNDER_WAY:
                        state.limits.left_place(change.job.type)
            else:
                self._lost_race(change)
        state.waiting |= committed.woken  # before the claims, which have seen them
        answers = iter(committed.inserted)
        for insertion in plan.insertions:
            self._inserted(insertion, [next(answers) for _ in insertion.jobs])
        for claim, jobs in zip(plan.claims, committed.claimed, strict=True):
            self._claimed(claim, jobs, committed)
        for planted, graph in zip(committed.graphs, plan.graphs, strict=True):
            self._planted(graph, planted)
        for delivery, was_written in zip(plan.deliveries, committed.delivered, strict=True):
            if delivery.is_telling:
                continue  # where another write came first, the store says so again
            if (effect := state.callbacks.settle(delivery, was_written)) is not None:
                self._callbacks.append(effect)
        state.callbacks.offer(self._ended, now=plan.now)
        if state.dependents.has_work:
            state.dependents.settle(self._lost_races)
        state.dependents.offer(job for job in self._ended if job.id not in committed.told)
        confirmations = self._confirmations()
        return [
            *plan.refusals,
            *self._again,
            *self._callbacks,
            *(AnswerHeartbeat(*pong) for pong in plan.pongs),
            *(it for it in confirmations if not it.may_wait),
            *self._jobs_sent(),
            *self._answers,
            *self._stopped(),
            *self._outcomes(),
            *(it for it in confirmations if it.may_wait),
            *self._cancels_answered(),
            *self._parks(committed),
            *journal_answers(plan, committed.entered, self._lost_races),
            *self._failed,
        ]

    def _parks(self, committed: Committed) -> Iterator[Effect]:
        planted = [not isinstance(answer, JobRefused) for answer in committed.graphs]
        return stored_parks(self._plan, planted, self._lost_races)

    # ---- the state

    def _written(self, job: Job) -> None:
        """Follow a job that was written."""
        state = self._state
        if job.status is Status.IN_PROGRESS:
            if job.payload is not None:
                assert job.execution.worker_id is not None
                self._started[job.execution.worker_id].append(job)
                # The record says when this was planned; from now on it is on its way. The end of
                # the run writes that, too.
                sent = replace(job.execution, sent=self._now)
                job = replace(job, payload=None, parents=b"", execution=sent)
                if self._now - self._plan.now >= NOTICEABLE_SECONDS:
                    state.know_since(job, self._now)
            state.adopt(job, now=self._now)
            return
        state.end(job.id)
        if job.lane is not None and state.limits.is_held_back(job.type):
            state.waiting.add(job.type)  # it has left its places
        if job.status is Status.QUEUED and job.wait_until is None:
            state.waiting.add(job.type)
        elif job.status.is_final:
            state.counters[_COUNTERS[job.status]] += 1
            state.timings.ended(job)
            self._ended.append(job)
            if job.status is Status.FAILED:
                self._failed.append(NoteFailure(job))

    def _lost_race(self, change: Change) -> None:
        """Another write came first: believe the store, and decide again on what was reported."""
        state, job, cause = self._state, change.job, change.cause
        self._lost_races.add(job.id)
        state.counters["writes_refused"] += 1
        state.forget(job.id)
        if change.claimed is not None:
            assert job.execution.worker_id is not None
            state.roster.refuse(job.execution.worker_id, job.id)
            self._again.append(PlaceAgain(change.claimed))
        elif job.execution.worker_id is not None:
            state.roster.drop(job.execution.worker_id, job.id)
        if cause is not None and cause.tries < MAX_TRIES:
            self._again.append(DecideAgain(replace(cause, tries=cause.tries + 1)))

    def _planted(self, insertion: GraphInsertion, stored: list[Job] | JobRefused) -> None:
        """Follow a graph that was stored, or not."""
        state, graph = self._state, insertion.graph
        if isinstance(stored, JobRefused):
            state.counters["submissions_refused"] += len(graph.jobs)
        else:
            pairs = zip(graph.jobs, stored, strict=True)
            given = [Stored(now, now is job) for job, now in pairs]
            state.counters["jobs_accepted"] += sum(it.is_new for it in given)
            if insertion.on_stored is not None:
                self._answers.append(HandOver(insertion.on_stored, given))
            for name in graph.outside:
                if (job := state.running.get(name)) is not None:
                    state.running[name] = replace(job, revision=job.revision + 1, dependents=True)
        self._answers.append(AnswerSubmission(insertion.answer, insertion.receipts(stored)))

    def _inserted(self, insertion: Insertion, stored_now: Sequence[Job | UniqueKeyTaken]) -> None:
        state = self._state
        if insertion.on_stored is not None:
            pairs = zip(insertion.jobs, stored_now, strict=True)
            stored = [
                Stored(s, s is job or s is self._plan.otherwise.get(job.id))
                for job, s in pairs
                if isinstance(s, Job)
            ]
            self._answers.append(HandOver(insertion.on_stored, stored))
        for job, now in zip(insertion.jobs, stored_now, strict=True):
            if now is self._plan.otherwise.get(job.id):
                state.counters["jobs_accepted"] += 1
                state.limits.lost_place(job.type)
            if now is job:
                state.counters["jobs_accepted"] += 1
                if job.status is Status.IN_PROGRESS:
                    self._written(job)
                elif job.status is Status.DISPATCHING:
                    state.claimed[job.id] = job
                continue
            self._free_place_of(job)
            if isinstance(now, Job) and now.status is Status.QUEUED and now.wait_until is None:
                state.waiting.add(now.type)
            if isinstance(now, Job) and now.status.is_final:
                asking = job.reply_to and job.reply_to.under_number_of(now.reply_to)
                self._ended.append(replace(now, reply_to=asking))
        receipts = self._plan.outcome_of(insertion, stored_now)
        self._answers.append(AnswerSubmission(insertion.answer, receipts))

    def _free_place_of(self, job: Job) -> None:
        """Give back the place of a job that was there already, on another one perhaps."""
        worker_id, believed = job.execution.worker_id, self._state.running.get(job.id)
        if worker_id is None or (believed and believed.execution.worker_id == worker_id):
            return
        self._state.roster.drop(worker_id, job.id)

    def _claimed(self, claim: Claim, jobs: Sequence[Job], committed: Committed) -> None:
        state = self._state
        state.counters["jobs_claimed"] += len(jobs)
        state.roster.release(slot.worker_id for slot in claim.slots)
        is_more = False
        if claim.limits is not None and (look := committed.looks.get(claim.types[0])):
            state.limits.saw(claim.types[0], look, started=len(jobs))
            is_more = look.is_more
        for job in jobs:
            state.had_turn(job.type)
            if claim.slots:
                self._written(job)
            else:
                state.claimed[job.id] = job
        if len(jobs) < claim.limit:
            size = sum(len(job.payload or b"") for job in jobs)
            if size < claim.most_bytes and not is_more:
                state.waiting.difference_update(claim.types)

    # ---- the effects

    def _confirmations(self) -> list[ConfirmReports]:
        """Confirm reports, except to workers of which one must be decided again."""
        undecided = {
            reported.worker_id
            for reported in self._plan.arrivals.reported
            if reported.report.job_id in self._lost_races
        }
        members = self._state.members
        return [
            ConfirmReports(
                members[worker_id].link, worker_id, batches, worker_id not in self._started
            )
            for worker_id, batches in self._plan.arrivals.batches.items()
            if worker_id in members and worker_id not in undecided
        ]

    def _jobs_sent(self) -> Iterator[Effect]:
        for worker_id, jobs in self._started.items():
            sent = []
            for job in jobs:
                if reason := self._reason_to_keep(job):
                    held = Held(job.id, job.attempt)
                    yield DecideAgain(JobReturned(worker_id, held, reason))
                else:
                    sent.append(job)
            if sent:
                yield SendJobs(self._state.members[worker_id].link, worker_id, sent)

    def _reason_to_keep(self, job: Job) -> str:
        """Return why a job that was started is not to be sent after all; mostly nothing."""
        if len(job.history) >= MOST_KEPT_BACK:
            return ""
        if self._is_late:
            return "the store took so long to start it that others may have taken it over"
        if job.history and self._is_declined(job):
            return "another worker is free for it"
        return ""

    def _is_declined(self, job: Job) -> bool:
        """True if the worker has not taken this job before, and another might."""
        state, worker_id = self._state, job.execution.worker_id
        assert worker_id is not None
        if state.members[worker_id].worker.kind.traits.lists_jobs:
            return False
        was_returned = any(
            past.worker_id == worker_id and past.outcome == Event.RETURNED for past in job.history
        )
        other = state.roster.freest(job.type) if was_returned else None
        return other is not None and other.worker_id != worker_id

    def _stopped(self) -> Iterator[Effect]:
        for worker_id, runs in self._plan.cancels.items():
            if member := self._state.members.get(worker_id):
                yield StopRuns(member.link, worker_id, runs)

    def _outcomes(self) -> Iterator[Effect]:
        by_gateway: defaultdict[str, list[Job]] = defaultdict(list)
        for job in self._ended:
            if job.reply_to is not None:
                by_gateway[job.reply_to.gateway].append(job)
        return (DeliverOutcomes(gateway, jobs) for gateway, jobs in by_gateway.items())

    def _cancels_answered(self) -> Iterator[Effect]:
        """Say what became of cancels; those that met another change are decided again."""
        for ask, receipt in self._plan.cancelled:
            met_another = receipt.reason and ask.job_id in self._plan.changes
            if (met_another or ask.job_id in self._lost_races) and ask.tries < MAX_TRIES:
                yield DecideAgain(replace(ask, tries=ask.tries + 1))
            else:
                yield AnswerCancel(ask, receipt)


def _as_told(job: Job, committed: Committed) -> Job:
    """Return a job as it was written: one with a callback is written once more."""
    is_told = job.callback is not None and job.id in committed.told
    return replace(job, dependents=False) if is_told else job
