"""Uvicorn inside our loop, on a socket of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from shunter.errors import SettingsError
from shunter.net.connections import MAX_CONNECTIONS
from shunter.net.descriptors import tell_of_shortage
from shunter.net.tls import TlsContext
from shunter.net.web.body_budget import BodyBudget
from shunter.net.web.http_connection import HttpConnection, HttpConnections
from shunter.refusal_log import LogThrottle

SHUTDOWN_SECONDS = 3
"""How long requests under way may take once the process stops."""

KEEP_SECONDS = 75
"""How long an idle connection stays open: longer than our own callers keep one."""

FOLLOW_SECONDS = 1.0
"""How often certificates are looked at."""

TICK_SECONDS = 1.0
"""How often the date of answers is brought up to date."""

BACKLOG = 256
"""How many connections are accepted before others have a turn."""

LOGGER = "uvicorn.error"
LOGGED_SECONDS = 10.0
"""How often the same line is logged: strangers must not fill the disk with it."""


class SeldomFilter(logging.Filter):
    """Lets the same message pass once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._throttle = LogThrottle(LOGGED_SECONDS)

    def filter(self, record: logging.LogRecord) -> bool:
        return self._throttle.admit(str(record.msg), now=record.created)


class LoopServer(uvicorn.Server):
    """Uvicorn inside our loop: signals are the business of who runs it.

    Uvicorn itself wakes the loop ten times a second to see whether it should end; here it is told.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # which brings the date of answers up to date
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TICK_SECONDS)

    def stop(self) -> None:
        """Take no more requests, finish those under way, and end; any thread may say so."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)


class HttpServer:
    """Serves an application at an address of ours, from `serve()` until `stop()`."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        key: str,
        remedy: str,
        tls: TlsContext | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._tls = tls
        self._listener = bound_listener(host, port, key=key, remedy=remedy)
        self._server = http_server(app, tls, max_connections=max_connections)
        self.port: int = self._listener.getsockname()[1]

    async def serve(self) -> None:
        # The filter of this logger lets that pass once in a while.
        tell_of_shortage(asyncio.get_running_loop(), logging.getLogger(LOGGER).warning)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._follow_files())
            await self._server.serve(sockets=[self._listener])
            following.cancel()

    async def _follow_files(self) -> None:
        """Show new certificates on new connections, as soon as they are there."""
        while self._tls is not None:
            await asyncio.sleep(FOLLOW_SECONDS)
            self._tls.refresh()

    async def started(self) -> None:
        """Wait until requests are taken."""
        while not self._server.started:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Take no more requests, finish those under way, return from `serve()`."""
        self._server.stop()

    def close(self) -> None:
        """Let go of the address."""
        self._listener.close()


def http_server(
    app: ASGIApp, tls: TlsContext | None = None, *, max_connections: int = MAX_CONNECTIONS
) -> LoopServer:
    """Make a server to be run with `serve(sockets=[...])` in the current loop."""
    connections = HttpConnections(max_connections)
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(it, SeldomFilter) for it in logger.filters):
        logger.addFilter(SeldomFilter())
    return LoopServer(
        uvicorn.Config(
            BodyBudget(app, lambda: connections.unread_bytes),
            http=cast(Any, partial(HttpConnection, others=connections)),
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )
    )


def bound_listener(host: str, port: int, *, key: str, remedy: str) -> socket.socket:
    """Bind an address, or say which setting is to blame and what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since asyncio turns off delays only on sockets that name theirs.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            "the system", key, f"{host}:{port}, which can't be bound ({error.strerror})", remedy
        ) from None
    return listener
