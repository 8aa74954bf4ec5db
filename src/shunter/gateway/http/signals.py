"""The routes of signals and streams: what is told to a job, and what a job tells while it runs.

Spec: docs/spec/http.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import StoreError
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import JobRoutes, job_scope
from shunter.model.job import Job, Status
from shunter.model.job_stream import FIRST_PAUSE, Restart, StreamReader, next_pause
from shunter.model.journal import EntryKind, Signal, signal_fault
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, not_found
from shunter.wire.checking import parsed
from shunter.wire.documents import signal_of
from shunter.wire.tagging import tagged_document

MAX_BODY_BYTES = 512 << 10
QUIET_SECONDS = 15.0
"""A stream in which nothing happens says so this often, so that nobody takes it for dead."""

EVENT_STREAM = "text/event-stream"


class SignalRoutes:
    """What HTTP clients may tell jobs, and hear of them while they run."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        orders: JobOrders,
        jobs: JobRoutes,
        audit: HttpAudit,
        *,
        new_id: Callable[[], str],
    ) -> None:
        self._dispatcher, self._orders, self._jobs = dispatcher, orders, jobs
        self._audit, self._new_id = audit, new_id

    async def signal(self, request: Request) -> Response:
        """POST: keep a signal; it is committed before the answer."""
        job_id, name, scope = request.path_params["id"], request.path_params["name"], None
        body = await read_body(request, MAX_BODY_BYTES)
        wish_id, value = signal_of(parsed(body or b"{}"))
        sent = Signal(job_id, name, wish_id or self._new_id(), value)
        if fault := signal_fault(sent):
            field, message = fault
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message, field=field)
        scope = job_scope(request)
        await self._audit.note(request, "signal job", job_id)
        entry = sent.entry(now=self._dispatcher.now())
        (receipt,) = await self._orders.answered(
            lambda answer: self._dispatcher.signal([entry], answer, scope),
            f"job {job_id} may or may not have the signal; send it again under the same id",
        )
        if receipt.reason and receipt.field == "id":
            raise not_found(job_id)
        if receipt.reason:
            raise HttpRefusal(HTTPStatus.CONFLICT, receipt.reason, field=receipt.field)
        return await self._jobs.written(await self._orders.job(job_id, scope))

    async def stream(self, request: Request) -> Response:
        """GET: what the job emits, from the start or from behind Last-Event-ID, as it comes."""
        job = await self._orders.job(request.path_params["id"], job_scope(request))
        reader = StreamReader()
        attempt, _, number = request.headers.get("last-event-id", "").partition(".")
        if attempt.isdecimal() and number.isdecimal():
            reader.attempt, reader.number = int(attempt), int(number) + 1
            reader.after = f"{reader.attempt:010d}/"
        events = self._events(job, reader)
        return StreamingResponse(
            events, media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"}
        )

    async def _events(self, job: Job, reader: StreamReader) -> AsyncIterator[bytes]:
        store, pause, quiet = self._dispatcher.store, FIRST_PAUSE, 0.0
        status: Status | None = job.status
        while True:
            try:
                (now,) = await store.get([job.id])
                page = await store.journal(job.id, EntryKind.CHUNKS, after=reader.after)
            except StoreError:
                await asyncio.sleep(1.0)
                continue
            status = None if now is None else now.status
            for each in reader.read(page.entries):
                if isinstance(each, Restart):
                    told = {"attempt": each.attempt, "from": each.number}
                    yield _event("restart", told)
                else:
                    chunk = tagged_document(each.body)
                    yield _event("chunk", chunk, event_id=f"{each.attempt}.{each.number}")
            if page.is_more:
                continue
            if status is None or status.is_final:
                yield _event("end", {"status": status})
                return
            pause = next_pause(pause, has_news=bool(page.entries))
            quiet = 0.0 if page.entries else quiet + pause
            if quiet >= QUIET_SECONDS:
                quiet = 0.0
                yield b": nothing new\n\n"
            await asyncio.sleep(pause)


def _event(name: str, value: Any, *, event_id: str = "") -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    data = msgspec.json.encode(value).decode()
    return f"{head}event: {name}\ndata: {data}\n\n".encode()
