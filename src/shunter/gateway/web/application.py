"""What `[http]` serves: the operations of the table, and one form for all errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.metadata import version

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from shunter.dispatch.dispatcher import Dispatcher
from shunter.errors import StoreError
from shunter.gateway.complaints import Complaints
from shunter.gateway.web.jobs import JobRoutes
from shunter.gateway.web.openapi import OPERATIONS, Operation, openapi_document
from shunter.gateway.web.probes import Probes
from shunter.gateway.web.refusals import (
    CODES,
    HttpRefusal,
    JsonAnswer,
    error_answer,
    refusal_of,
    unavailable,
)
from shunter.wire.tagging import BadDocument

Handler = Callable[[Request], Awaitable[Response]]

BODY_OVERHEAD = 64 * 1024


def max_body_bytes(max_message_bytes: int) -> int:
    """Return how large a body may be whose payload may be so large: base64 adds a third."""
    return max_message_bytes * 4 // 3 + BODY_OVERHEAD


def http_app(
    dispatcher: Dispatcher,
    complaints: Complaints,
    *,
    is_ready: Callable[[], bool],
    new_id: Callable[[], str],
) -> Starlette:
    """Build the application."""
    limit = max_body_bytes(dispatcher.rules.intake.max_payload_bytes)
    jobs = JobRoutes(dispatcher, new_id=new_id, max_body_bytes=limit)
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

    methods: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        methods.setdefault(operation.path, {})[operation.method] = guarded(operation)
    app = Starlette(
        routes=[_route(path, by_method) for path, by_method in methods.items()],
        exception_handlers=_error_handlers(complaints),
    )
    app.router.redirect_slashes = False
    return app


def _route(path: str, by_method: dict[str, Handler]) -> Route:
    """Make one route for all methods of a path, so that a 405 can say which ones there are."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await by_method[method](request)

    return Route(path.replace("{id}", "{id:path}"), endpoint, methods=list(by_method))


def _error_handlers(
    complaints: Complaints,
) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    async def refused(request: Request, error: Exception) -> Response:
        refusal = _as_refusal(request, error)
        if refusal.status < 500 and refusal.status != HTTPStatus.NOT_FOUND:
            peer = request.client.host if request.client else "http"
            complaints.note(peer, f"http_{refusal.detail.code}", refusal.detail.message)
        return error_answer(refusal)

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=HTTPStatus.BAD_REQUEST)

    return {
        HttpRefusal: refused,
        BadDocument: refused,
        HTTPException: refused,
        StoreError: refused,
        ClientDisconnect: gone,
        Exception: refused,
    }


def _as_refusal(request: Request, error: Exception) -> HttpRefusal:
    match error:
        case HttpRefusal():
            return error
        case BadDocument():
            return refusal_of(error)
        case StoreError():
            return unavailable(f"{error}; ask again later")
        case HTTPException() if error.status_code in CODES:
            return HttpRefusal(
                error.status_code, _routing_fault(request, error), headers=error.headers
            )
    return HttpRefusal(
        HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of ours; the dispatcher's log has it"
    )


def _routing_fault(request: Request, error: HTTPException) -> str:
    path = request.url.path[:128]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        return f"{request.method[:32]} is not for {path}; send {allowed}"
    return f"nothing is served at {path}; /openapi.json lists what is"
