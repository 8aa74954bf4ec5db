"""Routes and errors: every request gets an answer of one form, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from shunter.errors import StoreError
from shunter.net.web.refusals import CODES, HttpRefusal, error_answer, refusal_of, unavailable
from shunter.wire.tagged_values import BadDocument

Handler = Callable[[Request], Awaitable[Response]]
OnRefused = Callable[[str, HttpRefusal], None]
OnLost = Callable[[Request], Awaitable[Response | None]]

BODY_OVERHEAD = 64 * 1024


def max_body_bytes(max_message_bytes: int) -> int:
    """Return how large a body may be whose payload may be so large: base64 adds a third."""
    return max_message_bytes * 4 // 3 + BODY_OVERHEAD


def application(
    methods: Mapping[str, Mapping[str, Handler]],
    *,
    on_refused: OnRefused,
    directory: str,
    lost: OnLost | None = None,
) -> Starlette:
    """Serve these methods by path.

    `on_refused` hears of each peer's faults, and `directory` says where the paths are listed.
    `lost` may answer a GET of a path that is not there.
    """
    app = Starlette(
        routes=[_route(path, by_method) for path, by_method in methods.items()],
        exception_handlers=_error_handlers(on_refused, directory, lost),
    )
    app.router.redirect_slashes = False
    return app


def _route(path: str, by_method: Mapping[str, Handler]) -> Route:
    """Make one route for all methods of a path, so that a 405 can say which ones there are."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await by_method[method](request)

    return Route(path.replace("{id}", "{id:path}"), endpoint, methods=list(by_method))


def _error_handlers(
    on_refused: OnRefused, directory: str, lost: OnLost | None
) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    async def refused(request: Request, error: Exception) -> Response:
        if lost is not None and _is_nowhere(request, error):
            answer = await lost(request)
            if answer is not None:
                return answer
        refusal = _as_refusal(request, error, directory)
        if refusal.status < 500 and refusal.status != HTTPStatus.NOT_FOUND:
            on_refused(request.client.host if request.client else "http", refusal)
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


def _is_nowhere(request: Request, error: Exception) -> bool:
    """True if somebody looks at a path that no route has."""
    is_unknown = isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND
    return is_unknown and request.method in ("GET", "HEAD")


def _as_refusal(request: Request, error: Exception, directory: str) -> HttpRefusal:
    match error:
        case HttpRefusal():
            return error
        case BadDocument():
            return refusal_of(error)
        case StoreError():
            return unavailable(f"{error}; ask again later")
        case HTTPException() if error.status_code in CODES:
            message = _routing_fault(request, error, directory)
            return HttpRefusal(error.status_code, message, headers=error.headers)
    return HttpRefusal(
        HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of ours; the log of this process has it"
    )


def _routing_fault(request: Request, error: HTTPException, directory: str) -> str:
    path = request.url.path[:128]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        return f"{request.method[:32]} is not for {path}; send {allowed}"
    return f"nothing is served at {path}; {directory}"
