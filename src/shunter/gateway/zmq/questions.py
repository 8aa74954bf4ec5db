"""What clients ask over ZeroMQ: put in line by peer, answered from the store one after the other.

Reads the store and the dispatcher's counters, and changes nothing but limits. Who is next is the
business of `wire/fair_queue.py`. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.limit_changes import change_limits, shown_limits
from shunter.dispatch.pauses import pauses
from shunter.dispatch.run_pages import with_edges
from shunter.dispatch.schedule_book import ScheduleBook
from shunter.errors import LimitsRefused, ProtocolError
from shunter.gateway.schedule_orders import answer_question
from shunter.model.job import Job
from shunter.model.redaction import redacted_callback
from shunter.model.scope import JobScope
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge
from shunter.store.port import JobQuery, Store
from shunter.store.search import RunSearch
from shunter.why.store_reads import why
from shunter.wire.batches import BATCH_BYTES
from shunter.wire.fair_queue import FairQueue, QueueBounds
from shunter.wire.messages import (
    BareRequest,
    Busy,
    Fetch,
    Fetched,
    JobsAsked,
    JobsListed,
    JournalAsked,
    JournalShown,
    Kind,
    LimitsShown,
    Message,
    Outcome,
    PausesListed,
    RunsAsked,
    RunsListed,
    SchedulesAsked,
    SetLimits,
    Standing,
    WhyAsked,
    WhyShown,
    WorkersListed,
    decode,
    request_of,
)

BOUNDS = QueueBounds(peer_count=256, peer_bytes=1024 * 1024, count=10_000, bytes=8 * 1024 * 1024)
"""How many questions may wait, and how many bytes they may have."""

MAX_LISTED = 1000
FETCHED_AT_ONCE = 8
BUSY_SECONDS = 1.0

MAX_COUNTS = 100_000
"""How many types and states STATUS counts at most."""

LIST_BYTES = 16 * 1024 * 1024
WORKER_BYTES, HANDLER_BYTES = 512, 64
"""How large a list of workers may be, and what one takes of it besides its names."""

Answer = tuple[Kind, Message, bool]
"""What is answered, and whether it may go in parts."""


class Question(Struct, frozen=True):
    """What a client asks, and of what it may see the answer."""

    scope: JobScope
    kind: Kind
    body: bytes


class Questions:
    """The questions of all clients of one dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, book: ScheduleBook, is_clogged: Callable[[], bool]
    ) -> None:
        """`is_clogged` says whether results that wait for clients take all their memory."""
        self._dispatcher, self._book = dispatcher, book
        self._is_clogged = is_clogged
        self._waiting: FairQueue[Question] = FairQueue(BOUNDS)
        self._has_some = asyncio.Event()
        self._answers: dict[Kind, Callable[[bytes, JobScope], Coroutine[Any, Any, Answer]]] = {
            Kind.FETCH: self._fetch,
            Kind.LIST: self._list,
            Kind.RUNS: self._runs,
            Kind.WORKERS: self._workers,
            Kind.JOURNAL: self._journal,
            Kind.WHY: self._why,
            Kind.STATUS: self._status,
            Kind.PAUSES: self._pauses,
            Kind.SCHEDULES: self._schedules,
            Kind.LIMITS: self._limits,
            Kind.SET_LIMITS: self._set_limits,
        }

    def __contains__(self, kind: Kind) -> bool:
        """True if a message of this kind is a question."""
        return kind in self._answers

    def put(
        self, peer: bytes, scope: JobScope, kind: Kind, body: bytes
    ) -> list[tuple[bytes, Busy]]:
        """Put a question in line; return who is to ask again later, and what they are told."""
        if len(body) > BOUNDS.peer_bytes:
            raise ProtocolError(
                f"{kind} has {len(body):,} bytes; at most {BOUNDS.peer_bytes:,} are accepted, ask "
                "for fewer jobs at once"
            )
        displaced = self._waiting.put(peer, Question(scope, kind, body), len(body))
        self._has_some.set()
        reason = f"too many questions are waiting; ask in {BUSY_SECONDS:g} s"
        return [
            (asker, Busy(request_of(question.body), reason, BUSY_SECONDS))
            for asker, question in displaced
        ]

    async def next(self) -> tuple[bytes, Question]:
        """Wait for a question, and return the one whose turn it is, and whose it is."""
        while (found := self._waiting.take()) is None:
            self._has_some.clear()
            await self._has_some.wait()
        return found

    async def answer(self, question: Question) -> Answer:
        """Answer one question, or raise a ProtocolError or a StoreError."""
        return await self._answers[question.kind](question.body, question.scope)

    async def _fetch(self, body: bytes, scope: JobScope) -> Answer:
        fetch = decode(body, Fetch)
        if fetch.parts and self._is_clogged():
            return Kind.BUSY, memory_is_full(fetch.request), False
        outcomes, unknown, size = [], [], 0
        ids = fetch.job_ids[:MAX_LISTED]
        for start in range(0, len(ids), FETCHED_AT_ONCE):
            some = ids[start : start + FETCHED_AT_ONCE]
            found = scope.shown(await self._dispatcher.store.get(some))
            for job_id, job in zip(some, found, strict=True):
                if job is None:
                    unknown.append(job_id)
                elif job.status.is_final:
                    outcomes.append(Outcome(job.id, job.status, job.result, job.error))
                    size += len(job.result or b"")
            if size >= BATCH_BYTES:
                break
        return Kind.FETCH, Fetched(fetch.request, tuple(outcomes), tuple(unknown)), fetch.parts

    async def _list(self, body: bytes, scope: JobScope) -> Answer:
        asked = decode(body, JobsAsked)
        if asked.parts and self._is_clogged():
            return Kind.BUSY, memory_is_full(asked.request), False
        store = self._dispatcher.store
        if asked.job_ids:
            page = await with_edges(store, await self._in_full(asked.job_ids, scope))
            return Kind.LIST, JobsListed(asked.request, page.jobs, page.edges), asked.parts
        query = JobQuery(
            status=asked.status,
            type=asked.type,
            worker_id=asked.worker_id,
            namespace=scope.listed(asked.namespace),
            run=asked.run,
            before=asked.before,
            limit=max(1, min(asked.limit, MAX_LISTED)),
        )
        found = await store.find(query) if scope.covers(asked.namespace) else []
        edges: tuple[JobEdge, ...] = ()
        if asked.run is not None:
            page = await with_edges(store, found)
            found, edges = list(page.jobs), page.edges
        listed = JobsListed(asked.request, tuple(map(redacted, found)), edges)
        return Kind.LIST, listed, asked.parts

    async def _in_full(self, job_ids: Sequence[str], scope: JobScope) -> tuple[Job, ...]:
        """Show jobs in this order; where they are too large for one answer, only the first.

        They are read one by one, since each may be large.
        """
        shown: list[Job] = []
        size = 0
        for job_id in job_ids[:MAX_LISTED]:
            for job in await self._dispatcher.store.get([job_id], payload=True):
                if job is not None and scope.shows(job):
                    shown.append(redacted(job))
                    size += len(job.payload or b"") + len(job.result or b"") + len(job.log)
            if size >= BATCH_BYTES:
                break
        return tuple(shown)

    async def _runs(self, body: bytes, scope: JobScope) -> Answer:
        asked = decode(body, RunsAsked)
        return Kind.RUNS, await listed_runs(self._dispatcher.store, asked, scope), False

    async def _journal(self, body: bytes, scope: JobScope) -> Answer:
        shown = await shown_journal(self._dispatcher.store, decode(body, JournalAsked), scope)
        return Kind.JOURNAL, shown, False

    async def _why(self, body: bytes, scope: JobScope) -> Answer:
        asked = decode(body, WhyAsked)
        store, now = self._dispatcher.store, self._dispatcher.now()
        said = await why(store, asked.job_id, now=now, scope=scope)
        return Kind.WHY, WhyShown(asked.request, said), False

    async def _workers(self, body: bytes, _: JobScope) -> Answer:
        asked = decode(body, BareRequest)
        workers = fitting(await self._dispatcher.store.workers())
        shown = tuple(worker.shown for worker in workers)
        return Kind.WORKERS, WorkersListed(asked.request, shown), False

    async def _pauses(self, body: bytes, _: JobScope) -> Answer:
        asked = decode(body, BareRequest)
        found = await pauses(self._dispatcher.store)
        return Kind.PAUSES, PausesListed(asked.request, tuple(found)), False

    async def _status(self, body: bytes, _: JobScope) -> Answer:
        asked = decode(body, BareRequest)
        backlog = await self._dispatcher.store.backlog()
        standing = Standing(
            asked.request,
            self._dispatcher.id,
            tuple((entry.type, entry.status, entry.count) for entry in backlog[:MAX_COUNTS]),
            dict(self._dispatcher.counters),
        )
        return Kind.STATUS, standing, False

    async def _schedules(self, body: bytes, scope: JobScope) -> Answer:
        asked = decode(body, SchedulesAsked)
        return Kind.SCHEDULES, await answer_question(self._book, scope, asked), False

    async def _limits(self, body: bytes, _: JobScope) -> Answer:
        asked = decode(body, BareRequest)
        shown = await shown_limits(self._dispatcher.store)
        return Kind.LIMITS, LimitsShown(asked.request, tuple(shown)), False

    async def _set_limits(self, body: bytes, _: JobScope) -> Answer:
        order = decode(body, SetLimits)
        try:
            shown = await change_limits(self._dispatcher.store, order.type, order.change)
        except LimitsRefused as error:
            refused = LimitsShown(order.request, (), error.field, error.reason)
            return Kind.SET_LIMITS, refused, False
        return Kind.SET_LIMITS, LimitsShown(order.request, (shown,)), False


async def listed_runs(store: Store, asked: RunsAsked, scope: JobScope) -> RunsListed:
    """Return a page of the runs that somebody may see."""
    wanted = RunSearch(
        namespace=scope.listed(),
        workflow=asked.workflow,
        after=asked.after,
        limit=max(1, min(asked.limit, MAX_LISTED)),
    )
    seen = await store.runs(wanted)
    return RunsListed(asked.request, tuple(seen.runs), seen.next)


async def shown_journal(store: Store, asked: JournalAsked, scope: JobScope) -> JournalShown:
    """Return some of what a job has kept; its status is read first: what it kept is complete."""
    (job,) = await store.get([asked.job_id])
    if job is None or not scope.shows(job):
        return JournalShown(asked.request, None)
    page = await store.journal(job.id, asked.kind, after=asked.after)
    return JournalShown(asked.request, job.status, page.entries, page.is_more)


def fitting(workers: Sequence[Worker]) -> tuple[Worker, ...]:
    """Return the workers that fit into one answer, the first by id."""
    sizes = accumulate(
        WORKER_BYTES + sum(HANDLER_BYTES + len(handler.type) for handler in worker.handlers)
        for worker in workers
    )
    return tuple(worker for worker, size in zip(workers, sizes, strict=True) if size <= LIST_BYTES)


def memory_is_full(request: int) -> Busy:
    """Say that the answer to this request does not fit at present."""
    reason = f"results that wait for clients take all their memory; ask in {BUSY_SECONDS:g} s"
    return Busy(request, reason, BUSY_SECONDS)


def redacted(job: Job) -> Job:
    """Return a job as it may be listed: whoever asks need not be the one whose callback it is."""
    if job.callback is None:
        return job
    return replace(job, callback=replace(job.callback, url=redacted_callback(job.callback.url)))
