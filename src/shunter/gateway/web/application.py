"""What `[http]` serves: the operations of the table, and one form for all errors."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from shunter.dispatch.dispatcher import Dispatcher
from shunter.gateway.http_workers import HttpWorkers
from shunter.gateway.web.jobs import JobRoutes
from shunter.gateway.web.openapi import OPERATIONS, Operation, openapi_document
from shunter.gateway.web.probes import Probes
from shunter.gateway.web.workers import WorkerRoutes
from shunter.refusal_log import RefusalLog
from shunter.web.answering import Handler, application, max_body_bytes
from shunter.web.refusals import HttpRefusal, JsonAnswer


def http_app(
    dispatcher: Dispatcher,
    http_workers: HttpWorkers,
    refusals: RefusalLog,
    *,
    is_ready: Callable[[], bool],
    new_id: Callable[[], str],
) -> Starlette:
    """Build the application."""
    limit = max_body_bytes(dispatcher.rules.intake.max_payload_bytes)
    jobs = JobRoutes(dispatcher, new_id=new_id, max_body_bytes=limit)
    workers = WorkerRoutes(dispatcher, http_workers, max_body_bytes=limit)
    probes = Probes(dispatcher, is_ready)
    described = msgspec.json.encode(openapi_document(version("shunter")))

    async def openapi(request: Request) -> Response:
        return JsonAnswer(described)

    handlers: dict[str, Handler] = {
        "submit": jobs.submit,
        "browse": jobs.browse,
        "report": jobs.report,
        "show": jobs.show,
        "cancel": jobs.cancel,
        "register": workers.register,
        "list_workers": workers.browse,
        "show_worker": workers.show,
        "resign": workers.resign,
        "healthz": probes.healthz,
        "readyz": probes.readyz,
        "metrics": probes.metrics,
        "openapi": openapi,
    }

    def guarded(operation: Operation) -> Handler:
        handler = handlers[operation.id]

        async def handle(request: Request) -> Response:
            if operation.needs_ready:
                probes.check_ready()
            return await handler(request)

        return handle

    def refused(peer: str, refusal: HttpRefusal) -> None:
        refusals.note(peer, f"http_{refusal.detail.code}", refusal.detail.message)

    methods: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        methods.setdefault(operation.path, {})[operation.method] = guarded(operation)
    return application(methods, on_refused=refused, directory="/openapi.json lists what is")
