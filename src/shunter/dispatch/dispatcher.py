"""The dispatcher's shell: everything that arrived in one turn becomes one commit, then its effects.

Gateways put arrivals into the inbox. A turn decides on all of them (`turn.py`), commits the plan
in one batch, and only then acknowledges, hands out jobs and delivers results. While one commit is
under way the next batch gathers: that is the group commit. No decision is made here.
Knows no sockets and no clock: gateways, time and randomness are given to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from shunter.dispatch.activity import ActivityLog
from shunter.dispatch.arrivals import (
    NOBODY,
    Answers,
    Arrivals,
    CallbackAttempted,
    CallbackLink,
    CancelRequested,
    ClientLink,
    HeartbeatReceived,
    JobReturned,
    KeepRequested,
    OnStored,
    ParkStored,
    Receipts,
    Reported,
    SignalSent,
    StoredJobs,
    Submitted,
    Submitter,
    Survey,
    UnattributedResult,
    WorkerLeft,
    WorkerRegistered,
    WorkerShut,
)
from shunter.dispatch.effects import (
    AnswerCancel,
    AnswerHeartbeat,
    AnswerKeep,
    AnswerSignal,
    AnswerSubmission,
    ConfirmReports,
    DecideAgain,
    DeliverOutcomes,
    Effect,
    HandOver,
    MakeCallback,
    NoteFailure,
    NoteRefusal,
    PlaceAgain,
    SendJobs,
    StopRuns,
)
from shunter.dispatch.parent_results import children_of, with_parents
from shunter.dispatch.rules import Rules
from shunter.dispatch.state import DispatcherState
from shunter.dispatch.store_health import StoreHealth
from shunter.dispatch.turn import Reads, reads, settle, turn
from shunter.dispatch.view import DispatcherView
from shunter.errors import JobError, StoreError
from shunter.model.job import Job
from shunter.model.journal import JournalEntry
from shunter.model.limits_record import LimitsRecord
from shunter.model.pause import Pauses
from shunter.model.presence import Company
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry, backoff
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.submission import Submission
from shunter.model.worker import Handler
from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.port import Batch, Committed, Store

T = TypeVar("T")

IDLE_SECONDS = 0.01
"""How long to wait when all there is to do is to wait, for a cooldown or a free place."""

STORE_RETRY = Retry(delay=0.1, max_delay=2.0)

NOTHING_WRITTEN = Committed(inserted=[], replaced=[], delivered=[], claimed=[])


class Dispatcher:
    """One of any number of dispatchers over one store."""

    def __init__(
        self,
        store: Store,
        *,
        dispatcher_id: str,
        rules: Rules,
        now: Callable[[], float],
        jitter: Callable[[], float],
        on_refused: Callable[[str, JobError], None] = lambda worker_id, error: None,
        on_failed: Callable[[Job], None] = lambda job: None,
        on_store_error: Callable[[StoreError], None] = lambda error: None,
        version: str = "",
    ) -> None:
        self.id = dispatcher_id
        self.store = store
        self.rules = rules
        self.now = now
        self.turns = 0
        self.writing_turns = 0
        self.schedules_known = 0
        self.state = DispatcherState(dispatcher_id, rules, jitter=jitter)
        self.counters = self.state.counters
        self.activity = ActivityLog(dispatcher_id, version=version, started=now())
        self.view = DispatcherView(self.state)
        self._caller: CallbackLink | None = None
        self._on_refused = on_refused
        self.store_health = StoreHealth(now)
        self._on_store_error = on_store_error
        self._clients: dict[str, ClientLink] = {}
        self._registered: dict[str, tuple[Handler, ...]] = {}
        self._inbox = Arrivals()
        self._submissions_waiting = 0
        self._wake = asyncio.Event()
        self._drained: list[Callable[[], None]] = []
        self._effects: list[Effect] = []
        self._performers: dict[type[Effect], Callable[[Any], None]] = {
            AnswerHeartbeat: lambda e: e.link.send_pong(e.worker_id, e.beat),
            ConfirmReports: lambda e: e.link.send_taken(
                e.worker_id, e.batches, may_wait=e.may_wait
            ),
            SendJobs: lambda e: e.link.send_jobs(e.worker_id, e.jobs),
            StopRuns: lambda e: e.link.send_cancels(e.worker_id, e.runs),
            AnswerSubmission: lambda e: e.answer(e.receipts),
            HandOver: lambda e: e.on_stored(e.stored),
            AnswerKeep: lambda e: e.request.answer(e.is_kept),
            AnswerSignal: lambda e: e.sent.answers.put(e.sent.place, e.receipt),
            AnswerCancel: lambda e: e.request.answers.put(e.request.place, e.receipt),
            DeliverOutcomes: self._deliver,
            MakeCallback: self._make_callback,
            DecideAgain: self._decide_again,
            PlaceAgain: lambda e: self._inbox.unplaced.append(e.job),
            NoteFailure: lambda e: self._note_failure(e.job, on_failed),
            NoteRefusal: lambda e: self._on_refused(e.worker_id, e.error),
        }

    # ---- what gateways and sweeps tell; nothing here waits

    def serve_clients(self, gateway: str, link: ClientLink) -> None:
        """Let results for clients of this gateway go out by `link`."""
        self._clients[gateway] = link

    def serve_callbacks(self, link: CallbackLink | None) -> None:
        """Let `link` make the calls of jobs that have ended; without one nobody here makes any."""
        self._caller = link
        self.state.callbacks.is_served = link is not None

    def submit(
        self,
        submissions: Sequence[Submission],
        answer: Receipts,
        on_stored: OnStored | None = None,
        submitter: Submitter = NOBODY,
        *,
        is_whole: bool = False,
    ) -> None:
        """Take jobs in; the answers come after the commit, `on_stored` before `answer`.

        With `is_whole`, and where any of them names parents, all are stored or none.
        """
        submitters = [submitter] * len(submissions)
        self._take_in(Submitted(submissions, submitters, answer, on_stored, is_whole))

    def submit_for_many(
        self,
        submissions: Sequence[Submission],
        submitters: Sequence[Submitter],
        answer: Receipts,
        on_stored: OnStored | None = None,
    ) -> None:
        """Take jobs in, each of which may come from another client."""
        self._take_in(Submitted(submissions, submitters, answer, on_stored))

    def _take_in(self, submitted: Submitted) -> None:
        self._inbox.submitted.append(submitted)
        self._submissions_waiting += len(submitted.submissions)
        self._wake.set()

    def introduce(self, arrival: WorkerRegistered) -> None:
        """Let a worker in, or in again."""
        self._forget_words_of(arrival.worker.id)
        worker = arrival.worker
        if worker.kind.traits.lists_jobs:
            self._registered[worker.id] = worker.handlers
            if any(handler.schedule is not None for handler in worker.handlers):
                bare = tuple(replace(handler, schedule=None) for handler in worker.handlers)
                arrival = replace(arrival, worker=replace(worker, handlers=bare))
        self._inbox.membership.append(replace(arrival, received=self.now()))
        self._wake.set()

    @property
    def has_registered(self) -> bool:
        """True if workers have come since `take_registered` was called."""
        return bool(self._registered)

    def take_registered(self) -> dict[str, tuple[Handler, ...]]:
        """Return what workers do that came since the last call, for the schedules they declare."""
        taken, self._registered = self._registered, {}
        return taken

    def tell_worker(self, worker_id: str, text: str) -> None:
        """Have a worker log something, if it is connected here."""
        if (member := self.state.members.get(worker_id)) is not None:
            member.link.send_note(worker_id, text)

    def leave(self, worker_id: str) -> None:
        """Give nothing more to a worker that its gateway has lost."""
        self._forget_words_of(worker_id)
        self._inbox.membership.append(WorkerLeft(worker_id))
        self._wake.set()

    def shut(self, worker_id: str, *, until: float | None = None) -> None:
        """Give nothing to a worker for a while, or until it is heard from again."""
        self._inbox.membership.append(WorkerShut(worker_id, until))
        self._wake.set()

    def _forget_words_of(self, worker_id: str) -> None:
        """Drop what a worker said before it came or left, with a window that is past."""
        self._inbox.beaten.pop(worker_id, None)
        self._inbox.windows.pop(worker_id, None)

    def beat(self, arrival: HeartbeatReceived) -> None:
        self._inbox.beaten[arrival.worker_id] = replace(arrival, received=self.now())
        self._inbox.windows[arrival.worker_id] = arrival.window
        self._wake.set()

    def report(
        self, worker_id: str, reports: Iterable[Report], *, batch: int | None = None
    ) -> None:
        """Pass on how runs ended; `batch` is confirmed to the worker after the commit."""
        if batch is not None:
            self._inbox.batches[worker_id].append(batch)
        self._inbox.reported.extend(Reported(worker_id, report) for report in reports)
        self._wake.set()

    def refuse(self, worker_id: str, error: JobError) -> None:
        """Count and note what a gateway did not believe."""
        self.counters["reports_refused"] += 1
        self._on_refused(worker_id, error)

    def report_unattributed(
        self, unattributed: UnattributedResult, *, batch: int | None = None
    ) -> None:
        """Pass on a result that names no job, from a worker this dispatcher gave none."""
        if batch is not None:
            self._inbox.batches[unattributed.worker_id].append(batch)
        self._inbox.unattributed.append(unattributed)
        self._wake.set()

    def give_back(
        self,
        worker_id: str,
        jobs: Iterable[Held],
        reason: str,
        *,
        blame: bool = False,
        may_have_begun: bool = False,
    ) -> None:
        """Say that the worker does not have these jobs; `blame` counts it as a loss.

        `may_have_begun` is for jobs that were sent, and that nobody knows to be untouched.
        """
        self._inbox.returned_jobs.extend(
            JobReturned(worker_id, job, reason, blame, may_have_begun=may_have_begun)
            for job in jobs
        )
        self._wake.set()

    def heard(self, worker_ids: Iterable[str]) -> None:
        """Record a sign of life from workers that hold no lease."""
        self._inbox.heard.update(worker_ids)
        self._wake.set()

    def advance(self, worker_id: str, advances: Iterable[Advance]) -> None:
        self._inbox.advanced.extend((worker_id, advance) for advance in advances)
        self._wake.set()

    def resize(self, worker_id: str, window: int) -> None:
        self._inbox.windows[worker_id] = window
        self._wake.set()

    def clog(self, gateway: str, is_clogged: bool) -> None:
        """Start no more jobs while so much waits to be sent by a gateway, or again."""
        self._inbox.clogged[gateway] = is_clogged
        self._wake.set()

    def resign(self, worker_id: str) -> None:
        self._inbox.resigned.append(worker_id)
        self._wake.set()

    def cancel(
        self, job_ids: Sequence[str], answer: Receipts, scope: JobScope = EVERYTHING
    ) -> None:
        """Stop jobs for somebody who sees what is in `scope`; the answers come after the commit."""
        answers = Answers(len(job_ids), answer)
        self._inbox.cancel_requests.extend(
            CancelRequested(job_id, place, answers, scope) for place, job_id in enumerate(job_ids)
        )
        self._wake.set()

    def keep(self, entries: Sequence[JournalEntry], answer: Callable[[list[bool]], None]) -> None:
        """Keep what runs have said is theirs; the answers come after the commit."""
        self._inbox.keep_requests.append(KeepRequested(entries, answer))
        self._wake.set()

    def signal(
        self, entries: Sequence[JournalEntry], answer: Receipts, scope: JobScope = EVERYTHING
    ) -> None:
        """Send jobs signals for somebody who sees what is in `scope`."""
        answers = Answers(len(entries), answer)
        self._inbox.signals.extend(
            SignalSent(entry, place, answers, scope) for place, entry in enumerate(entries)
        )
        self._wake.set()

    def look_at(self, jobs: Iterable[Job]) -> None:
        """Decide on jobs whose alarm has come."""
        self._inbox.due.update((job.id, job) for job in jobs)
        self._wake.set()

    def offer_callbacks(self, jobs: Iterable[Job]) -> None:
        """Call back for these ended jobs, as soon as it is their turn."""
        self._inbox.due_callbacks.extend(jobs)
        self._wake.set()

    def tell_dependents(self, jobs: Iterable[Job]) -> None:
        """Tell the dependents of these ended jobs, unless another dispatcher is at it."""
        self._inbox.due_dependents.extend(jobs)
        self._wake.set()

    def callback_attempted(self, job_id: str, tries: int, error: str | None) -> None:
        """Say how the call number `tries` went; None is a success."""
        self.callbacks_attempted([CallbackAttempted(job_id, tries, error)])

    def callbacks_attempted(self, calls: Iterable[CallbackAttempted]) -> None:
        """Say how several calls went."""
        self._inbox.callback_attempts.extend(calls)
        self._wake.set()

    def survey(self, survey: Survey) -> None:
        """Look at the workers that all dispatchers share."""
        self._inbox.surveyed.append(survey)
        self._wake.set()

    def catch_up(self, jobs: Iterable[Job]) -> None:
        """Follow what others made of jobs that run here."""
        self._inbox.changed_elsewhere.extend(jobs)
        self._wake.set()

    def meet(self, company: Company) -> None:
        """Say which other dispatchers there are, and what their clocks show."""
        self._inbox.company = company
        self._wake.set()

    def hold_back(self, pauses: Pauses) -> None:
        """Start nothing of what is paused, and again what no longer is."""
        if pauses != self.state.pauses:
            self._inbox.pauses = pauses
            self._wake.set()

    def expect_waiting(self) -> None:
        """Look into the store's queue again: others may have put jobs there."""
        self._inbox.is_queue_changed = True
        self._wake.set()

    def learn_hooks(self, types: frozenset[str]) -> None:
        """Say of which types the store knows that they have hooks."""
        self._inbox.hooked |= types
        self._wake.set()

    def learn_limits(self, records: Mapping[str, LimitsRecord]) -> None:
        """Say what the store has on the limits of types."""
        self._inbox.limits |= records
        self._wake.set()

    def look_for_tokens(self) -> None:
        """Look into the queues again whose jobs wait for a token that has come."""
        if due := self.state.limits.due(now=self.now()):
            self._inbox.tokens_due |= due
            self._wake.set()

    @property
    def is_full(self) -> bool:
        """True if gateways should stop reading clients for now."""
        return self._submissions_waiting >= 2 * self.rules.intake_limit

    def when_drained(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when there is room for submissions again."""
        self._drained.append(resume)

    @property
    def has_arrivals(self) -> bool:
        """True if there will be a turn anyway."""
        return bool(self._inbox)

    @property
    def has_work(self) -> bool:
        return bool(self._inbox) or self.state.has_work

    # ---- turns

    async def run(self) -> None:
        """Take turns for ever; what follows from one is done while the next is being written."""
        try:
            while True:
                if not self.has_work:
                    self._perform()
                    self._wake.clear()
                    if not self.has_work:
                        await self._wake.wait()
                if not await self._take_turn(self._commit_and_perform) and not self._inbox:
                    self._perform()
                    await asyncio.sleep(IDLE_SECONDS)
        finally:
            self._perform()

    async def turn(self) -> bool:
        """Decide on all that has arrived, commit it, and perform what follows from it.

        Return whether there was anything to do: a claim may have to wait for its cooldown.
        """
        is_written = await self._take_turn(self.store.commit)
        self._perform()
        return is_written

    async def _commit_and_perform(self, batch: Batch) -> Committed:
        if not self._effects:
            return await self.store.commit(batch)
        commit = asyncio.ensure_future(self.store.commit(batch))
        await asyncio.sleep(0)  # now the store has it
        self._perform()
        return await commit

    async def _take_turn(self, commit: Callable[[Batch], Awaitable[Committed]]) -> bool:
        """Decide and commit, and know what became of it; what follows is kept for later."""
        began, taken = self.now(), None
        arrivals = self._take_inbox()
        wanted = reads(self.state, arrivals, now=self.now())
        stored = StoredJobs()
        if not wanted.is_empty:
            stored = await self._patiently(lambda: self._read(wanted))
        plan = turn(self.state, arrivals, stored, now=self.now())
        committed = NOTHING_WRITTEN
        if plan.is_written:
            batch, decided = plan.batch(), self.now()
            committed = await self._patiently(lambda: commit(batch))
            taken = self.now() - decided
            if children := children_of(committed, self.state.shows_parents):
                committed = await self._patiently(
                    lambda: with_parents(self.store, committed, children)
                )
        self.turns += 1
        self.writing_turns += plan.has_changes or any(committed.claimed)
        self.activity.took_turn(self.now() - began, taken)
        self._perform()
        self._effects = settle(self.state, plan, committed, now=self.now())
        return bool(plan.has_jobs or plan.outcomes or arrivals)

    def _take_inbox(self) -> Arrivals:
        """Take all that has arrived, but no more submissions than one commit should hold.

        Reports come first: workers wait for the end of this turn to be given more. Some
        submissions are always taken, however many reports there are.
        """
        taken, self._inbox = self._inbox, Arrivals()
        room = self.rules.intake_limit - len(taken.reported)
        for index, submitted in enumerate(taken.submitted):
            room -= len(submitted.submissions)
            if room < 0 and index:
                self._inbox.submitted = taken.submitted[index:]
                taken.submitted = taken.submitted[:index]
                break
        self._submissions_waiting = sum(len(s.submissions) for s in self._inbox.submitted)
        return taken

    async def _read(self, wanted: Reads) -> StoredJobs:
        """Ask the store about jobs that arrivals speak of and nobody here knows."""
        jobs: dict[str, Job] = {}
        held_by: dict[str, list[Job]] = {}
        self._perform()  # a store that is slow to answer must not hold back what it has taken
        if wanted.worker_ids:
            for job in await self.store.held_by(wanted.worker_ids):
                assert job.execution.worker_id is not None
                held_by.setdefault(job.execution.worker_id, []).append(job)
        if ids := wanted.job_ids | wanted.children:
            found = await self.store.get(sorted(ids))
            jobs = {job.id: job for job in found if job is not None}
        standings: dict[str, frozenset[ParentOutcome]] = {}
        if wanted.children:  # after the jobs: so whoever adds an edge in between is noticed
            standings = await self.store.standings(sorted(wanted.children))
        edges: list[JobEdge] = []
        if (page := wanted.edges) is not None:
            edges = await self.store.dependents(page.parents, after=page.after, limit=page.limit)
        return StoredJobs(jobs, held_by, edges, standings)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Use the store. While it fails, wait: nothing has been promised yet."""
        failures = 0
        while True:
            try:
                with self.store_health.observed():
                    return await work()
            except StoreError as error:
                self.counters["store_failures"] += 1
                self._on_store_error(error)
                heed_cancellation()
            failures += 1
            await asyncio.sleep(backoff(STORE_RETRY, failures, jitter=0.0))

    # ---- after the commit

    def _perform(self) -> None:
        """Do what follows from the last turn, which is in the store."""
        effects, self._effects = self._effects, []
        for effect in effects:
            self._performers[type(effect)](effect)
        if self._drained and not self.is_full:
            resume, self._drained = self._drained, []
            for call in resume:
                call()

    def _deliver(self, effect: DeliverOutcomes) -> None:
        if client := self._clients.get(effect.gateway):
            client.deliver(effect.jobs)

    def _note_failure(self, job: Job, on_failed: Callable[[Job], None]) -> None:
        self.activity.job_failed(job, now=self.now())
        on_failed(job)

    def _make_callback(self, effect: MakeCallback) -> None:
        if self._caller is not None:
            self._caller.call(effect.job)

    def _decide_again(self, effect: DecideAgain) -> None:
        match effect.arrival:
            case Reported():
                self._inbox.reported.append(effect.arrival)
            case JobReturned():
                self._inbox.returned_jobs.append(effect.arrival)
            case CancelRequested():
                self._inbox.cancel_requests.append(effect.arrival)
            case CallbackAttempted():
                self._inbox.callback_attempts.append(effect.arrival)
            case ParkStored():
                self._inbox.parks_stored.append(effect.arrival)
            case SignalSent():
                self._inbox.signals.append(effect.arrival)


def heed_cancellation() -> None:
    """Stop where a cancellation came out of the store as one of its errors."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here, as in a sandbox
        return
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
