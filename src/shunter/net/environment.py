"""What a process has from outside: clocks, randomness, sockets, and who it is.

Dispatchers, workers and clients take all of it from an `Environment`, so that the simulator
(`testing/simulation`) can put a virtual clock and a network of its own under the same code.
Timers and tasks come from the event loop, which the simulator replaces as well.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from shunter.model.key import CurvePair
from shunter.net.connections import MAX_CONNECTIONS, return_large_blocks
from shunter.net.curve import Admits, CurveGate, CurveListener
from shunter.net.datagrams import PACKETS_AT_ONCE, Batch, DatagramSocket
from shunter.net.descriptors import connections_each, raised_limit
from shunter.net.http_calls import Caller
from shunter.net.tls import CallerFiles, ServerFiles, caller_tls, server_tls
from shunter.net.transport import LoopSocket, Receive, ZmqContext, bound_router, connected_dealer
from shunter.wire.udp.peers import UdpAddress

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from shunter.net.web.server import HttpServer

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

SWITCH_SECONDS = 0.0002
"""The loop and the store's threads take turns this often; Python's default, 5 ms, is what a
store thread would wait each time it comes back from SQLite while the loop is busy."""

YOUNG_OBJECTS = 20_000
"""Garbage collection runs after this many allocations. With Python's default, 700, every turn had
several collections, which took a sixth of a busy dispatcher's time, and found little."""
OLDER_LOOKS = 20


class Environment:
    """The real one."""

    def wall(self) -> float:
        """Return the time of day, in seconds since 1970; it may jump."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some moment; they never jump."""
        return time.monotonic()

    def lease_clock(self) -> float:
        """Return the time by which leases are counted: it goes on while the host sleeps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311

    def token_bytes(self, count: int) -> bytes:
        """Return bytes that nobody can foresee."""
        return secrets.token_bytes(count)

    def hostname(self) -> str:
        return socket.gethostname()

    def pid(self) -> int:
        return os.getpid()

    def boot_id(self) -> str:
        """Name this start of this host: processes that give the same name share a clock."""
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return f"since {round(time.time() - time.monotonic(), -1):.0f}"

    def tune_process(self) -> None:
        """Set Python and its memory up for a dispatcher that has the process to itself."""
        return_large_blocks()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # all that was imported stays, and need not be looked at again
        gc.set_threshold(YOUNG_OBJECTS, OLDER_LOOKS, OLDER_LOOKS)

    def max_connections(self) -> int:
        """Open as many files as may be; return how many connections each listener may have."""
        return connections_each(raised_limit(), most=MAX_CONNECTIONS)

    # ---- sockets

    def zmq_context(self) -> ZmqContext:
        return zmq.Context()

    def bound_router(
        self,
        context: ZmqContext,
        address: str,
        receive: Receive,
        *,
        max_message_bytes: int,
        high_water_mark: int,
        max_connections: int = MAX_CONNECTIONS,
        curve: CurveListener | None = None,
    ) -> LoopSocket:
        """Listen at `address`, or raise a ZMQError."""
        return bound_router(
            context,
            address,
            receive,
            max_message_bytes=max_message_bytes,
            high_water_mark=high_water_mark,
            max_connections=max_connections,
            curve=curve,
        )

    def curve_gate(self, context: ZmqContext, admits: Admits) -> CurveGate:
        """Let in peers whose keys are known, at all sockets of a context that listen."""
        return CurveGate(context, admits)

    def connected_dealer(
        self,
        context: ZmqContext,
        address: str,
        receive: Receive,
        *,
        identity: bytes,
        max_message_bytes: int,
        curve: CurvePair | None = None,
    ) -> LoopSocket:
        """Connect to `address`, now and again whenever the connection breaks."""
        return connected_dealer(
            context,
            address,
            receive,
            identity=identity,
            max_message_bytes=max_message_bytes,
            curve=curve,
        )

    def datagram_socket(
        self,
        host: str,
        port: int,
        on_batch: Callable[[Batch], None],
        *,
        at_once: int = PACKETS_AT_ONCE,
    ) -> DatagramSocket:
        """Listen for datagrams, or raise an OSError."""
        return DatagramSocket(host, port, on_batch, at_once=at_once)

    async def resolved(self, host: str, port: int) -> UdpAddress:
        """Return the numeric address of a UDP peer, or raise an OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        address = found[0][4]
        return str(address[0]), int(address[1])

    def http_server(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        key: str,
        remedy: str,
        tls: ServerFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> HttpServer:
        """Bind an address to serve HTTP at, or raise a SettingsError that names `key`."""
        from shunter.net.web.server import HttpServer

        return HttpServer(
            app,
            host,
            port,
            key=key,
            remedy=remedy,
            tls=None if tls is None else server_tls(tls),
            max_connections=max_connections,
        )

    def caller(
        self,
        *,
        at_once: int,
        may_call: Callable[[str, str], bool] = lambda host, address: True,
        headers: Mapping[str, str] | None = None,
        tls: CallerFiles | None = None,
    ) -> Caller:
        """Return what makes calls over HTTP, all with these `headers`."""
        trusted = None if tls is None else caller_tls(tls)
        return Caller(at_once=at_once, may_call=may_call, headers=headers, tls=trusted)


REAL = Environment()
