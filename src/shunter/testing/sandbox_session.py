"""What a client talks to that a handler in a sandbox has opened, or the sandbox for a test.

It answers as a dispatcher would, from the sandbox's own; no socket is opened, whatever address
the handler's code names. Asked for results, it lets jobs run first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shunter.client.session import Answer
from shunter.client.session_opener import session_opener
from shunter.dispatch import sweep
from shunter.dispatch.arrivals import Submitter
from shunter.dispatch.limit_changes import change_limits, shown_limits
from shunter.dispatch.pauses import pauses
from shunter.dispatch.run_pages import with_edges
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import LimitsRefused, PauseRefused, ShunterError
from shunter.gateway.schedule_orders import answer_question, carry_out
from shunter.gateway.zmq.questions import listed_runs, shown_journal
from shunter.model.scope import EVERYTHING
from shunter.model.submission import Receipt, Submission
from shunter.store.port import JobQuery
from shunter.testing.finish import finish
from shunter.wire.messages import (
    Accepted,
    Cancel,
    Fetch,
    Fetched,
    JobsAsked,
    JobsListed,
    JournalAsked,
    Kind,
    LimitsShown,
    Message,
    Outcome,
    PauseOrder,
    PausesListed,
    RunsAsked,
    ScheduleOrder,
    SchedulesAsked,
    SetLimits,
    Signals,
    Standing,
    Submit,
    WorkersListed,
)

if TYPE_CHECKING:
    from shunter.testing.sandbox import Sandbox


class SandboxSession:
    """Questions and answers without a wire; one `of_a_test` is asked from a loop of its own."""

    def __init__(self, sandbox: Sandbox, *, of_a_test: bool = False) -> None:
        self._sandbox, self._of_a_test = sandbox, of_a_test
        self._dispatcher, self._store = sandbox.dispatcher, sandbox.store
        self._book = ScheduleBook(sandbox.dispatcher, new_id=sandbox.new_id, submit=self._submit)
        self._last = 0
        self.addresses: tuple[str, ...] = ("the sandbox",)
        self.unserved: tuple[str, ...] = ()
        self.similar: dict[str, str] = {}

    def close(self) -> None:
        """Nothing is open."""

    async def _submit(self, jobs: Sequence[Submission], namespace: str) -> Sequence[Receipt]:
        receipts: list[Receipt] = []
        submitter = Submitter(namespace=namespace)
        self._dispatcher.submit(jobs, receipts.extend, submitter=submitter)
        await self._dispatcher.turn()
        return receipts

    async def ask(self, kind: Kind, body: Callable[[int], Message]) -> Answer:
        """Answer a request at once; asked for results or a journal, let jobs run first."""
        self._last += 1
        message = body(self._last)
        if isinstance(message, Fetch):
            with self._sandbox.worker.lock.held():
                self._sandbox.worker.make_room()
            if self._of_a_test:  # an async handler needs a thread in which no loop runs
                await asyncio.to_thread(self._sandbox.run)
            else:
                self._sandbox.run()
        with self._sandbox.worker.lock.held():
            return await self._answer(kind, message)

    async def _answer(self, kind: Kind, message: Message) -> Answer:
        match message:
            case Submit() as submit:
                receipts: list[Receipt] = []
                self._dispatcher.submit(submit.jobs, receipts.extend)
                finish(self._dispatcher.turn())
                return Accepted(submit.request, tuple(receipts))
            case Cancel() as cancel:
                receipts = []
                self._dispatcher.cancel(cancel.job_ids, receipts.extend)
                finish(self._dispatcher.turn())
                return Accepted(cancel.request, tuple(receipts))
            case Signals() as signals:
                receipts, now = [], self._sandbox.clock()
                entries = [signal.entry(now=now) for signal in signals.signals]
                self._dispatcher.signal(entries, receipts.extend)
                while len(receipts) < len(entries):
                    finish(self._dispatcher.turn())
                return Accepted(signals.request, tuple(receipts))
            case JournalAsked() as asked:
                self._sandbox.run()
                return finish(shown_journal(self._store, asked, EVERYTHING))
            case Fetch() as fetch:
                found = finish(self._store.get(fetch.job_ids))
                ended = [job for job in found if job is not None and job.status.is_final]
                outcomes = tuple(Outcome(j.id, j.status, j.result, j.error) for j in ended)
                known = {job.id for job in found if job is not None}
                unknown = tuple(job_id for job_id in fetch.job_ids if job_id not in known)
                return Fetched(fetch.request, outcomes, unknown)
            case JobsAsked() as asked if asked.job_ids:
                shown = finish(self._store.get(asked.job_ids, payload=True))
                page = finish(with_edges(self._store, [job for job in shown if job]))
                return JobsListed(asked.request, page.jobs, page.edges)
            case JobsAsked() as asked:
                query = JobQuery(
                    status=asked.status,
                    type=asked.type,
                    worker_id=asked.worker_id,
                    namespace=asked.namespace,
                    run=asked.run,
                    before=asked.before,
                    limit=asked.limit,
                )
                page = finish(with_edges(self._store, finish(self._store.find(query))))
                return JobsListed(asked.request, page.jobs, page.edges)
            case RunsAsked() as asked:
                return finish(listed_runs(self._store, asked, EVERYTHING))
            case PauseOrder() as order:
                receipt = Receipt(order.name)
                try:
                    self._sandbox.hold_back(order.target, order.name, is_on=order.is_on)
                except PauseRefused as error:
                    receipt = Receipt(order.name, error.target, error.reason)
                return Accepted(order.request, (receipt,))
            case other if kind is Kind.PAUSES:
                return PausesListed(self._last, tuple(finish(pauses(self._store))))
            case other if kind is Kind.WORKERS:
                workers = finish(self._store.workers())
                return WorkersListed(other.request, tuple(workers))  # type: ignore[attr-defined]
            case other if kind is Kind.STATUS:
                backlog = tuple((b.type, b.status, b.count) for b in finish(self._store.backlog()))
                counters = dict(self._dispatcher.counters)
                return Standing(self._last, self._dispatcher.id, backlog, counters)
            case SchedulesAsked() as asked:
                return await answer_question(self._book, EVERYTHING, asked)
            case ScheduleOrder() as order:
                return await carry_out(self._book, EVERYTHING, order)
            case SetLimits() as order:
                try:
                    changed = finish(change_limits(self._store, order.type, order.change))
                except LimitsRefused as error:
                    return LimitsShown(order.request, (), error.field, error.reason)
                finish(sweep.share_limits(self._dispatcher))
                return LimitsShown(order.request, (changed,))
            case other if kind is Kind.LIMITS:
                return LimitsShown(self._last, tuple(finish(shown_limits(self._store))))
            case _:
                raise ShunterError(f"{kind} is nothing that a client asks for")


@contextmanager
def reaching(sandbox: Sandbox) -> Iterator[None]:
    """Have clients that a test opens meanwhile talk to the sandbox."""
    token = session_opener.set(lambda *_, **__: SandboxSession(sandbox, of_a_test=True))
    try:
        yield
    finally:
        session_opener.reset(token)
