"""Uvicorn inside the dispatcher's loop, on a socket of ours."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from shunter.errors import SettingsError

SHUTDOWN_SECONDS = 3
"""How long requests under way may take once the dispatcher stops."""


class _Server(uvicorn.Server):
    """Uvicorn inside our loop: signals are the service's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: Starlette) -> uvicorn.Server:
    """Make a server to be run with `serve(sockets=[...])` in the current loop."""
    return _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )


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
