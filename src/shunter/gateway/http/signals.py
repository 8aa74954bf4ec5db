"""The routes of signals and streams: what is told to a job, and what a job tells while it runs.

Spec: docs/spec/http.md.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.event_streams import (
    StreamLook,
    event_stream,
    last_event,
    look_at_stream,
    server_event,
)
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import JobRoutes, job_scope
from shunter.model.job_stream import Restart, StreamReader
from shunter.model.journal import EntryKind, Signal, signal_fault
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, not_found
from shunter.wire.checked_documents import parsed
from shunter.wire.documents import signal_of
from shunter.wire.tagged_values import tagged_document

MAX_BODY_BYTES = 512 << 10


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
        own_id, value = signal_of(parsed(body or b"{}"))
        sent = Signal(job_id, name, own_id or self._new_id(), value)
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
        if last := last_event(request):
            reader.attempt, reader.number = last[0], last[1] + 1
            reader.after = f"{reader.attempt:010d}/"
        return event_stream(lambda: self._look(job.id, reader))

    async def _look(self, job_id: str, reader: StreamReader) -> StreamLook:
        store = self._dispatcher.store
        (job,) = await store.get([job_id])
        page = await store.journal(job_id, EntryKind.CHUNKS, after=reader.after)
        events = []
        for each in reader.read(page.entries):
            if isinstance(each, Restart):
                told = {"attempt": each.attempt, "from": each.number}
                events.append(server_event("restart", told))
            else:
                chunk = tagged_document(each.body)
                event_id = f"{each.attempt}.{each.number}"
                events.append(server_event("chunk", chunk, event_id=event_id))
        return look_at_stream(events, job, is_more=page.is_more)
