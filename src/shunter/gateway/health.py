"""GET /healthz: 200 once every gateway listens, 503 before and while shutting down."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from shunter.errors import SettingsError


class _Server(uvicorn.Server):
    """Uvicorn inside our loop: signals are the service's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_app(is_ready: Callable[[], bool]) -> Starlette:
    """Build what `[http]` serves."""

    async def healthz(request: Request) -> JSONResponse:
        ready = is_ready()
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    return Starlette(routes=[Route("/healthz", healthz, methods=["GET"])])


def http_server(app: Starlette) -> uvicorn.Server:
    """Make a server to be run with `serve(sockets=[...])` in the current loop."""
    return _Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))


def bound_listener(host: str, port: int) -> socket.socket:
    """Bind the address of `[http]`, or say which setting is to blame."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            "the system",
            "http.port",
            f"{host}:{port}, which can't be bound ({error.strerror})",
            "an address of this machine that nothing else listens on, or http.enabled = false",
        ) from None
    return listener
