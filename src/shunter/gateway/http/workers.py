"""The workers' routes: register, resign, and look. Spec: docs/spec/http-workers.md."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.declarations import Declarations
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.registry import change_workers
from shunter.gateway.http.access import AccessControl, forbidden, key_of
from shunter.gateway.http.audit import HttpAudit
from shunter.gateway.http.worker_calls import HttpWorkers
from shunter.model import health
from shunter.model.identity import is_name
from shunter.model.key import Action, Key
from shunter.model.report import Held
from shunter.model.worker import MAX_WORKERS, Worker
from shunter.net.web.bodies import read_body
from shunter.net.web.refusals import HttpRefusal, JsonAnswer, unavailable
from shunter.wire.checked_documents import checked, parsed
from shunter.wire.worker_documents import (
    WorkerList,
    WorkerRequest,
    declared_handlers,
    registered_worker,
    worker_document,
)

COLLECTION = "/dispatcher/workers/"


class WorkerRoutes:
    """What HTTP clients may do with workers."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        http_workers: HttpWorkers,
        access: AccessControl,
        audit: HttpAudit,
        declarations: Declarations,
        *,
        max_body_bytes: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._access, self._audit, self._declarations = access, audit, declarations
        self._store = dispatcher.store
        self._http_workers = http_workers
        self._max_body_bytes = max_body_bytes

    async def register(self, request: Request) -> Response:
        """PUT: a worker comes. It may have jobs at once, and is asked for its health at once."""
        registration = checked(
            parsed(await read_body(request, self._max_body_bytes)), WorkerRequest
        )
        if not self._http_workers.hosts.has(registration.hostname):
            fault = self._http_workers.hosts.unlisted(registration.hostname)
            raise HttpRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, fault, field="hostname")
        key, now = key_of(request), self._dispatcher.now()
        if key is not None:
            _check_types(key, registration.handlers)
        handlers = declared_handlers(registration)

        def come(known: Worker | None) -> Worker:
            if key is not None and health.is_anothers(known, key.name, self._access.ring):
                raise _taken(registration.hostname, registration.port)
            return health.registered(
                known,
                hostname=registration.hostname,
                port=registration.port,
                handlers=tuple(dict.fromkeys(registration.handlers)),
                max_jobs=registration.maxJobs,
                now=now,
                key="" if key is None else key.name,
                scheme=registration.scheme,
                secret=registration.secret or "",
                version=registration.version or "",
                has_hooks=registration.hasHooks,
            )

        worker_id = health.worker_id_at(registration.hostname, registration.port)
        here = self._dispatcher.view.connected
        if here >= MAX_WORKERS and not await self._store.workers([worker_id]):
            raise unavailable(f"{here:,} workers are here, as many as may be; come again later")
        (worker,) = await change_workers(self._store, {worker_id: come})
        self._http_workers.check(worker)
        await self._http_workers.survey()
        headers = {"Location": COLLECTION + quote(worker_id)}
        notes = (
            await self._declarations.declare(worker_id, handlers) if registration.schedules else ()
        )
        return JsonAnswer(registered_worker(worker, notes), HTTPStatus.CREATED, headers)

    async def browse(self, request: Request) -> Response:
        """GET of all."""
        workers = await self._store.workers()
        return JsonAnswer(WorkerList(workers=tuple(map(worker_document, workers))))

    async def show(self, request: Request) -> Response:
        """GET of one."""
        return JsonAnswer(worker_document(await self._worker(_worker_id(request))))

    async def resign(self, request: Request) -> Response:
        """DELETE: its jobs are back in the queue when this is answered."""
        worker = await self._worker(_worker_id(request))
        key = key_of(request)
        if key is not None and not key.permits(Action.OPERATE) and key.name != worker.key:
            raise forbidden(key, Action.OPERATE)
        if not worker.kind.traits.is_called:
            raise HttpRefusal(
                HTTPStatus.CONFLICT,
                f"worker {worker.id} is connected by ZeroMQ and resigns by itself; stop its "
                "process with SIGTERM",
                field="id",
            )
        await self._audit.note(request, "resign worker", worker.id)
        now = self._dispatcher.now()
        await change_workers(
            self._store,
            {worker.id: lambda known: None if known is None else health.resigned(known, now=now)},
        )
        await self._give_up_jobs(worker.id)
        return JsonAnswer(worker_document(await self._worker(worker.id)))

    async def _give_up_jobs(self, worker_id: str) -> None:
        """Put what it has back into the queue, and have it stopped: it may be working still."""
        jobs = await self._store.held_by([worker_id])
        if not jobs:
            return
        held = [Held(job.id, job.attempt) for job in jobs]
        self._http_workers.send_cancels(worker_id, held)
        self._dispatcher.leave(worker_id)
        reason = f"worker {worker_id} resigned"
        self._dispatcher.give_back(worker_id, held, reason, may_have_begun=True)
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dispatcher.submit([], lambda _: committed.set_result(None))
        await committed

    async def _worker(self, worker_id: str) -> Worker:
        found = await self._store.workers([worker_id])
        if not found:
            message = f"no worker {worker_id} is known; GET {COLLECTION} lists all"
            raise HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")
        return found[0]


def _check_types(key: Key, handlers: Sequence[str]) -> None:
    for job_type in handlers:
        if not key.serves(job_type):
            message = (
                f"key {key.name!r} may serve {', '.join(key.types)}, and not {job_type}; leave it "
                "out, or make a key for it (`shunter key new --types`)"
            )
            raise HttpRefusal(HTTPStatus.FORBIDDEN, message, field="handlers")


def _taken(hostname: str, port: int) -> HttpRefusal:
    message = (
        f"the worker at {hostname}:{port} came with another key, and is not known to be gone; "
        "stop it, revoke its key, or listen on another port"
    )
    return HttpRefusal(HTTPStatus.CONFLICT, message, field="port")


def _worker_id(request: Request) -> str:
    worker_id: str = request.path_params["id"]
    if not worker_id:
        message = "all workers at once can't be resigned; name one"
        allow = {"Allow": "GET, HEAD, PUT"}
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, message, headers=allow)
    if not is_name(worker_id):
        message = f"no worker {worker_id[:128]} is known; GET {COLLECTION} lists all"
        raise HttpRefusal(HTTPStatus.NOT_FOUND, message, field="id")
    return worker_id
