"""The dispatcher: everything that arrived in one turn becomes one commit, then its effects.

Gateways put arrivals into the inbox; a turn lets the planner decide on all of them, commits the
plan in one batch, and only then acknowledges, hands out jobs and delivers results. While one
commit is under way the next batch gathers: that is the group commit.
Knows no sockets and no clock: gateways, time and randomness are given to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from zlib import crc32

from msgspec.structs import replace

from shunter.dispatch.arrivals import (
    Answers,
    Arrivals,
    Beaten,
    CallbackLink,
    CalledBack,
    CancelAsked,
    ClientLink,
    GivenBack,
    Introduced,
    OnStored,
    Receipts,
    Reported,
    Stored,
    Submitted,
    Survey,
    Unasked,
)
from shunter.dispatch.callbacks import CallbackDesk
from shunter.dispatch.desk import Desk
from shunter.dispatch.plan import Change, Insertion, Plan
from shunter.dispatch.planner import Planner
from shunter.dispatch.rules import Rules
from shunter.dispatch.store_health import StoreHealth
from shunter.dispatch.timings import Timings
from shunter.dispatch.verdict import is_run_of
from shunter.errors import JobError, StoreError, UniqueKeyTaken
from shunter.model.job import FINAL, Job, ReplyTo, Status
from shunter.store.port import Batch, Claim, Committed, Store
from shunter.wire.messages import Advance, Held, Receipt, Report, Submission

T = TypeVar("T")

IDLE_SECONDS = 0.01
"""How long to wait when all there is to do is to wait, for a cooldown or a free place."""

STORE_RETRY_SECONDS = 0.1
MAX_STORE_RETRY_SECONDS = 2.0

_COUNTERS = {status: f"jobs_{status.word}" for status in FINAL}

MAX_TRIES = 5
"""How often an arrival is decided again after losing a compare-and-swap."""


class Dispatcher:
    """One of any number of dispatchers over one store."""

    def __init__(
        self,
        store: Store,
        *,
        dispatcher_id: str,
        rules: Rules,
        now: Callable[[], float],
        spread: Callable[[], float],
        on_refused: Callable[[str, JobError], None] = lambda worker_id, error: None,
        on_store_error: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        self.id = dispatcher_id
        self.store = store
        self.rules = rules
        self.now = now
        self.counters: Counter[str] = Counter()
        self.timings = Timings()
        self.turns = 0
        self.desk = Desk(crc32(dispatcher_id.encode()), dispatcher_id=dispatcher_id)
        self._planner = Planner(
            dispatcher_id,
            self.desk,
            rules,
            spread=spread,
            counters=self.counters,
            on_refused=on_refused,
        )
        self.callbacks = CallbackDesk(rules.callbacks, spread=spread, counters=self.counters)
        self.store_health = StoreHealth(now)
        self._on_store_error = on_store_error
        self._clients: dict[str, ClientLink] = {}
        self._inbox = Arrivals()
        self._wishes_waiting = 0
        self._wake = asyncio.Event()
        self._drained: list[Callable[[], None]] = []
        self._untold: Callable[[], None] = _nothing

    # ---- what gateways and sweeps tell; nothing here waits

    def serve_clients(self, gateway: str, link: ClientLink) -> None:
        """Let results for clients of this gateway go out by `link`."""
        self._clients[gateway] = link

    def serve_callbacks(self, link: CallbackLink | None) -> None:
        """Let `link` make the calls of jobs that have ended; without one nobody here makes any."""
        self.callbacks.link = link

    def submit(
        self,
        wishes: Sequence[Submission],
        reply_to: ReplyTo | None,
        answer: Receipts,
        on_stored: OnStored | None = None,
    ) -> None:
        """Take jobs in; the answers come after the commit, `on_stored` before `answer`."""
        self.submit_for_many(wishes, [reply_to] * len(wishes), answer, on_stored)

    def submit_for_many(
        self,
        wishes: Sequence[Submission],
        replies: Sequence[ReplyTo | None],
        answer: Receipts,
        on_stored: OnStored | None = None,
    ) -> None:
        """Take jobs in, of each of which another client may want to hear."""
        self._inbox.submitted.append(Submitted(wishes, replies, answer, on_stored))
        self._wishes_waiting += len(wishes)
        self._wake.set()

    def introduce(self, arrival: Introduced) -> None:
        # An older heartbeat must not be decided on after this, with a window that is past.
        self._inbox.beaten.pop(arrival.worker.id, None)
        self._inbox.introduced.append(arrival)
        self._wake.set()

    def beat(self, arrival: Beaten) -> None:
        self._inbox.beaten[arrival.worker_id] = arrival
        self._wake.set()

    def report(
        self, worker_id: str, reports: Iterable[Report], *, batch: int | None = None
    ) -> None:
        """Pass on how runs ended; `batch` is confirmed to the worker after the commit."""
        if batch is not None:
            self._inbox.batches[worker_id].append(batch)
        self._inbox.reported.extend(Reported(worker_id, report) for report in reports)
        self._wake.set()

    def report_unasked(self, unasked: Unasked, *, batch: int | None = None) -> None:
        """Pass on a result that names no job, from a worker this dispatcher gave none."""
        if batch is not None:
            self._inbox.batches[unasked.worker_id].append(batch)
        self._inbox.unasked.append(unasked)
        self._wake.set()

    def give_back(
        self, worker_id: str, jobs: Iterable[Held], reason: str, *, blame: bool = False
    ) -> None:
        """Say that the worker does not have these jobs; `blame` counts it as a loss."""
        self._inbox.given_back.extend(GivenBack(worker_id, job, reason, blame) for job in jobs)
        self._wake.set()

    def heard(self, worker_ids: Iterable[str]) -> None:
        """Record a sign of life from workers that hold no lease."""
        self._inbox.heard.update(worker_ids)
        self._wake.set()

    def advance(self, worker_id: str, advances: Iterable[Advance]) -> None:
        self._inbox.advanced.extend((worker_id, advance) for advance in advances)
        self._wake.set()

    def resize(self, worker_id: str, window: int) -> None:
        self.desk.roster.adjust(worker_id, window=window)
        self._wake.set()

    def resign(self, worker_id: str) -> None:
        self._inbox.resigned.append(worker_id)
        self._wake.set()

    def cancel(self, job_ids: Sequence[str], answer: Receipts) -> None:
        answers = Answers(len(job_ids), answer)
        self._inbox.cancel_asked.extend(
            CancelAsked(job_id, place, answers) for place, job_id in enumerate(job_ids)
        )
        self._wake.set()

    def look_at(self, jobs: Iterable[Job]) -> None:
        """Decide on jobs whose alarm has come."""
        self._inbox.due.update((job.id, job) for job in jobs)
        self._wake.set()

    def offer_callbacks(self, jobs: Iterable[Job]) -> None:
        """Call back for these ended jobs, as soon as it is their turn."""
        self.callbacks.offer(jobs, now=self.now())
        self._wake.set()

    def called_back(self, job_id: str, tries: int, error: str | None) -> None:
        """Say how the call number `tries` went; None is a success."""
        self.all_called_back([CalledBack(job_id, tries, error)])

    def all_called_back(self, calls: Iterable[CalledBack]) -> None:
        """Say how several calls went."""
        self._inbox.called_back.extend(calls)
        self._wake.set()

    def survey(self, survey: Survey) -> None:
        """Look at the workers that all dispatchers share."""
        self._inbox.surveyed.append(survey)
        self._wake.set()

    def catch_up(self, jobs: Iterable[Job]) -> None:
        """Follow what others made of jobs that run here."""
        self._inbox.changed_elsewhere.extend(jobs)
        self._wake.set()

    def expect_waiting(self) -> None:
        """Look into the store's queue again: others may have put jobs there."""
        self.desk.waiting |= self.desk.roster.types()
        self._wake.set()

    @property
    def is_full(self) -> bool:
        """Tell whether gateways should stop reading clients for now."""
        return self._wishes_waiting >= 2 * self.rules.intake_limit

    def when_drained(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when there is room for submissions again."""
        self._drained.append(resume)

    @property
    def has_arrivals(self) -> bool:
        """Tell whether there will be a turn anyway."""
        return bool(self._inbox)

    @property
    def has_work(self) -> bool:
        is_asked = bool(self._inbox) or bool(self.desk.claimed) or self.callbacks.has_work
        return is_asked or any(self.desk.wanted())

    # ---- turns

    async def run(self) -> None:
        """Take turns for ever; what follows from one is told while the next is being written."""
        try:
            while True:
                if not self.has_work:
                    self._tell()
                    self._wake.clear()
                    if not self.has_work:
                        await self._wake.wait()
                if not await self._settle_turn(self._commit_and_tell) and not self._inbox:
                    self._tell()
                    await asyncio.sleep(IDLE_SECONDS)
        finally:
            self._tell()

    async def turn(self) -> bool:
        """Decide on all that has arrived, commit it, and perform what follows from it.

        Return whether there was anything to commit: a claim may have to wait for its cooldown.
        """
        is_written = await self._settle_turn(self.store.commit)
        self._tell()
        return is_written

    async def _commit_and_tell(self, batch: Batch) -> Committed:
        commit = asyncio.ensure_future(self.store.commit(batch))
        await asyncio.sleep(0)  # now the store has it
        self._tell()
        return await commit

    def _tell(self) -> None:
        """Send what follows from the last turn, which is in the store."""
        tell, self._untold = self._untold, _nothing
        tell()

    async def _settle_turn(self, commit: Callable[[Batch], Awaitable[Committed]]) -> bool:
        """Decide and commit, and know what became of it; who is to hear of it is noted."""
        arrivals = self._take_inbox()
        stored = await self._patiently(lambda: self._read(arrivals))
        plan = self._planner.plan(arrivals, stored, now=self.now())
        self.callbacks.plan(arrivals.called_back, stored, plan)
        batch = plan.batch()
        committed = await self._patiently(lambda: commit(batch))
        self.turns += 1
        lost_races: set[str] = set()
        started: defaultdict[str, list[Job]] = defaultdict(list)
        ended: list[Job] = []
        for change, was_written in zip(plan.changes.values(), committed.replaced, strict=True):
            if was_written:
                self._settle(change.job, started, ended)
            else:
                lost_races.add(change.job.id)
                self._lost_race(change)
        receipts: list[tuple[Receipts, list[Receipt]]] = []
        answers = iter(committed.inserted)
        for insertion in plan.insertions:
            stored_now = [next(answers) for _ in insertion.jobs]
            self._inserted(insertion, stored_now, started, ended)
            receipts.append((insertion.answer, plan.outcome_of(insertion, stored_now)))
        for claim, jobs in zip(plan.claims, committed.claimed, strict=True):
            self._claimed(claim, jobs, started, ended)
        for delivery, was_written in zip(plan.deliveries, committed.delivered, strict=True):
            if (again := self.callbacks.settle(delivery, was_written)) is not None:
                self._inbox.called_back.append(again)
        self.callbacks.offer(ended, now=plan.now)

        def tell() -> None:
            self._confirm(plan, arrivals, lost_races)
            self._perform(plan, started, receipts, ended)
            self._answer_cancels(plan, lost_races)

        self._untold = tell
        is_written = plan.changes or plan.insertions or plan.claims or plan.deliveries
        return bool(is_written or arrivals)

    def _take_inbox(self) -> Arrivals:
        """Take all that has arrived, but no more submissions than one commit should hold."""
        taken, self._inbox = self._inbox, Arrivals()
        room = self.rules.intake_limit
        for index, submitted in enumerate(taken.submitted):
            room -= len(submitted.wishes)
            if room <= 0:
                self._inbox.submitted = taken.submitted[index + 1 :]
                taken.submitted = taken.submitted[: index + 1]
                break
        self._wishes_waiting = sum(len(s.wishes) for s in self._inbox.submitted)
        return taken

    async def _read(self, arrivals: Arrivals) -> dict[str, Job]:
        """Ask the store about jobs that arrivals speak of and the desk does not know."""
        running = self.desk.running
        ids = {job_id for job_id in arrivals.mentioned() if job_id not in running}
        for arrival in arrivals.introduced:
            ids.update(held.job_id for held in arrival.held)
        for beat in arrivals.beaten.values():
            ids |= self._doubtful(beat, now=self.now())
        workers = {arrival.worker.id for arrival in arrivals.introduced}
        workers.update(arrival.worker_id for arrival in arrivals.unasked)
        arrivals.held_in_store.clear()
        if workers or ids:
            self._tell()  # a store that is slow to answer must not hold back what it has taken
        if workers:
            for job in await self.store.held_by(workers):
                assert job.execution.worker_id is not None
                arrivals.held_in_store.setdefault(job.execution.worker_id, []).append(job)
        if not ids:
            return {}
        return {job.id: job for job in await self.store.get(sorted(ids)) if job is not None}

    def _doubtful(self, beat: Beaten, *, now: float) -> set[str]:
        """Return jobs on which a heartbeat and the desk have disagreed for a while.

        Of most that do, nothing follows: they came from another dispatcher over this store and
        are over before the next beat, or are still on their way to the worker.
        """
        running, member = self.desk.running, self.desk.members.get(beat.worker_id)
        strange = {
            held
            for held in beat.held
            if not is_run_of(running.get(held.job_id), beat.worker_id, held)
        }
        if member is not None:
            member.strange = {held: member.strange.get(held, now) for held in strange}
            since = now - self.rules.lease.heartbeat
            strange = {held for held, heard_at in member.strange.items() if heard_at <= since}
        has = {held.job_id for held in beat.held}
        sent_before = now - self.rules.forgotten_after
        missing = {
            job_id
            for job_id in self.desk.roster.held(beat.worker_id) - has
            if (job := running.get(job_id)) is None
            or job.execution.started is None
            or job.execution.started <= sent_before
        }
        return missing | {held.job_id for held in strange}

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Use the store. While it fails, wait: nothing has been promised yet."""
        delay = STORE_RETRY_SECONDS
        while True:
            try:
                with self.store_health.observed():
                    return await work()
            except StoreError as error:
                self.counters["store_failures"] += 1
                self._on_store_error(error)
                heed_cancellation()
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_STORE_RETRY_SECONDS)

    # ---- after the commit

    def _settle(self, job: Job, started: defaultdict[str, list[Job]], ended: list[Job]) -> None:
        """Bring the desk up to date with a job that was written."""
        if job.status is Status.IN_PROGRESS:
            if job.payload is not None:
                assert job.execution.worker_id is not None
                started[job.execution.worker_id].append(job)
                self.timings.started(job)
            self.desk.adopt(job)
            return
        self.desk.running.pop(job.id, None)
        if job.status is Status.QUEUED and job.wait_until is None:
            self.desk.waiting.add(job.type)
        elif job.status.is_final:
            self.counters[_COUNTERS[job.status]] += 1
            self.timings.ended(job)
            ended.append(job)

    def _lost_race(self, change: Change) -> None:
        """Another write came first: believe the store, and decide again on what was reported."""
        job, cause = change.job, change.cause
        self.counters["writes_refused"] += 1
        self.desk.forget(job.id)
        if change.claimed is not None:
            assert job.execution.worker_id is not None
            self.desk.roster.refuse(job.execution.worker_id, job.id)
            self._inbox.unplaced.append(change.claimed)
        elif job.execution.worker_id is not None:
            self.desk.roster.drop(job.execution.worker_id, job.id)
        if cause is None or cause.tries >= MAX_TRIES:
            return
        again = replace(cause, tries=cause.tries + 1)
        if isinstance(again, Reported):
            self._inbox.reported.append(again)
        else:
            self._inbox.given_back.append(again)

    def _answer_cancels(self, plan: Plan, lost_races: set[str]) -> None:
        """Say what became of cancels; those that met another change are decided again."""
        for ask, receipt in plan.cancelled:
            met_another = receipt.reason and ask.job_id in plan.changes
            if (met_another or ask.job_id in lost_races) and ask.tries < MAX_TRIES:
                self._inbox.cancel_asked.append(replace(ask, tries=ask.tries + 1))
            else:
                ask.answers.put(ask.place, receipt)

    def _confirm(self, plan: Plan, arrivals: Arrivals, lost_races: set[str]) -> None:
        """Answer heartbeats and confirm reports, before jobs follow from them.

        A calculator takes no job before its last report is confirmed. A worker of which a report
        must be decided again gets no confirmation.
        """
        for link, worker_id, beat in plan.pongs:
            link.send_pong(worker_id, beat)
        undecided = {
            reported.worker_id
            for reported in arrivals.reported
            if reported.report.job_id in lost_races
        }
        for worker_id, batches in arrivals.batches.items():
            member = self.desk.members.get(worker_id)
            if member is not None and worker_id not in undecided:
                member.link.send_taken(worker_id, batches)

    def _inserted(
        self,
        insertion: Insertion,
        stored_now: list[Job | UniqueKeyTaken],
        started: defaultdict[str, list[Job]],
        ended: list[Job],
    ) -> None:
        if insertion.on_stored is not None:
            pairs = zip(insertion.jobs, stored_now, strict=True)
            insertion.on_stored([Stored(s, s is job) for job, s in pairs if isinstance(s, Job)])
        for job, stored in zip(insertion.jobs, stored_now, strict=True):
            if stored is job:
                self.counters["jobs_accepted"] += 1
                if job.status is Status.IN_PROGRESS:
                    self._settle(job, started, ended)
                elif job.status is Status.DISPATCHING:
                    self.desk.claimed[job.id] = job
                continue
            if job.execution.worker_id is not None and job.id not in self.desk.running:
                self.desk.roster.drop(job.execution.worker_id, job.id)
            if isinstance(stored, Job) and stored.status.is_final:
                ended.append(replace(stored, reply_to=job.reply_to))

    def _claimed(
        self,
        claim: Claim,
        jobs: list[Job],
        started: defaultdict[str, list[Job]],
        ended: list[Job],
    ) -> None:
        self.counters["jobs_claimed"] += len(jobs)
        self.desk.roster.release(berth.worker_id for berth in claim.berths)
        for job in jobs:
            if claim.berths:
                self._settle(job, started, ended)
            else:
                self.desk.claimed[job.id] = job
        if len(jobs) < claim.limit:
            self.desk.waiting.difference_update(claim.types)

    def _perform(
        self,
        plan: Plan,
        started: defaultdict[str, list[Job]],
        receipts: list[tuple[Receipts, list[Receipt]]],
        ended: list[Job],
    ) -> None:
        """Send what follows from the plan, first what has the longest way before it.

        Receipts go before results: a receipt may say that a job is another one, long ended.
        """
        members = self.desk.members
        for worker_id, jobs in started.items():
            if member := members.get(worker_id):
                member.link.send_jobs(worker_id, jobs)
            else:
                held = [Held(job.id, job.attempt) for job in jobs]
                self.give_back(worker_id, held, "its worker left before it could be sent")
        for answer, written in receipts:
            answer(written)
        for worker_id, orders in plan.cancels.items():
            if member := members.get(worker_id):
                member.link.send_cancels(worker_id, orders)
        by_gateway: defaultdict[str, list[Job]] = defaultdict(list)
        for job in ended:
            if job.reply_to is not None:
                by_gateway[job.reply_to.gateway].append(job)
        for gateway, jobs in by_gateway.items():
            if client := self._clients.get(gateway):
                client.deliver(jobs)
        if self._drained and not self.is_full:
            resume, self._drained = self._drained, []
            for call in resume:
                call()


def _nothing() -> None:
    """Nobody is to hear of anything."""


def heed_cancellation() -> None:
    """Stop where a cancellation came out of the store as one of its errors."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here, as in a sandbox
        return
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
