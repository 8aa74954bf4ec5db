"""The routes of logs: what a worker tells of a run that goes on, and what readers hear of it.

Spec: docs/spec/http.md and docs/spec/http-workers.md.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import JobError
from shunter.gateway.http import reports
from shunter.gateway.http.event_streams import (
    StreamLook,
    event_stream,
    last_event,
    look_at_stream,
    server_event,
)
from shunter.gateway.http.job_orders import JobOrders
from shunter.gateway.http.jobs import job_scope
from shunter.model.identity import is_name
from shunter.model.job import Status
from shunter.model.job_log import LogReader, LogRestart, told_of
from shunter.model.journal import (
    LIVE_LOG,
    EntryKind,
    Keep,
    LiveLog,
    encode_live_log,
    live_log_fault,
)
from shunter.model.report import Report
from shunter.model.run_secrets import RunSecrets
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, not_found, refusal_of
from shunter.wire.checked_documents import checked, parsed
from shunter.wire.documents import LogRequest

MAX_BODY_BYTES = 512 << 10


class LogRoutes:
    """What HTTP workers tell of logs, and HTTP clients read of them."""

    def __init__(self, dispatcher: Dispatcher, orders: JobOrders, run_secrets: RunSecrets) -> None:
        self._dispatcher, self._orders, self._run_secrets = dispatcher, orders, run_secrets

    async def take(self, request: Request) -> Response:
        """POST: the last that a run has printed; it is committed before the answer."""
        job_id: str = request.path_params["id"]
        body = await read_body(request, MAX_BODY_BYTES)
        told = checked(parsed(body), LogRequest)
        packed = encode_live_log(LiveLog(told.start, told.log))
        if fault := live_log_fault(LIVE_LOG, packed):
            raise HttpRefusal(
                HTTPStatus.UNPROCESSABLE_ENTITY, fault.removeprefix("body: "), field="log"
            )
        (job,) = await self._dispatcher.store.get([job_id]) if is_name(job_id) else (None,)
        if job is None:
            raise not_found(job_id)
        try:
            self._run_secrets.check(job_id, told.attempt, bytes.fromhex(told.secret))
            reports.check(job, told.worker_id, Report(job_id, told.attempt))
        except JobError as error:
            raise refusal_of(error) from None
        keep = Keep(job_id, told.attempt, EntryKind.LOG, LIVE_LOG, packed)
        entry = keep.entry(now=self._dispatcher.now())
        if not await self._orders.kept(entry, "tell the next of it in a second"):
            message = f"attempt {told.attempt} has ended meanwhile; tell nothing more of its log"
            raise HttpRefusal(HTTPStatus.CONFLICT, message, field="attempt")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def follow(self, request: Request) -> Response:
        """GET: the log of a job, from the start or from behind Last-Event-ID, as it comes."""
        job = await self._orders.job(request.path_params["id"], job_scope(request))
        reader = LogReader(*(last_event(request) or (0, 0)))
        return event_stream(lambda: self._look(job.id, reader))

    async def _look(self, job_id: str, reader: LogReader) -> StreamLook:
        store = self._dispatcher.store
        (job,) = await store.get([job_id])
        page = await store.journal(job_id, EntryKind.LOG)
        events: list[bytes] = []
        if job is not None:
            told = told_of(page.entries, job.attempt)
            if job.status is not Status.IN_PROGRESS:
                found = list(reader.read_record(job, told))
            else:
                found = [] if told is None else list(reader.read(job.attempt, told))
            for each in found:
                if isinstance(each, LogRestart):
                    events.append(server_event("restart", {"attempt": each.attempt}))
                else:
                    event_id = f"{each.attempt}.{each.end}"
                    events.append(server_event("log", each.text, event_id=event_id))
        return look_at_stream(events, job)
