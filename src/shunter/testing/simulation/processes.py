"""A simulated process: its loop, its clock, its randomness, its sockets, and its end.

What it has from outside is a `SimulatedEnvironment`. A process that is killed leaves nothing but
what had already left it; a restart is a new process under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, cast
from zlib import crc32

from shunter.model.key import CurvePair
from shunter.net.curve import CurveListener
from shunter.net.datagrams import PACKETS_AT_ONCE, Batch, DatagramSocket
from shunter.net.environment import Environment
from shunter.net.http_calls import Caller
from shunter.net.tls import CallerFiles, ServerFiles
from shunter.net.transport import LoopSocket, Receive, ZmqContext
from shunter.testing.simulation.http_network import SimulatedCaller
from shunter.testing.simulation.loop import ProcessLoop, VirtualTime
from shunter.testing.simulation.network import Network
from shunter.wire.udp.peers import UdpAddress

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from shunter.net.web.server import HttpServer

EPOCH = 1_700_000_037.0
"""What the wall clocks say when a run begins: three seconds before a full minute."""


class WallClock:
    """What a host's clock says. It belongs to the host: a restart does not set it right."""

    def __init__(self, time: VirtualTime, *, offset: float = 0.0) -> None:
        self._time = time
        self.offset = offset

    def __call__(self) -> float:
        return EPOCH + self._time.now + self.offset


class Process:
    """One life of one process."""

    def __init__(
        self,
        name: str,
        life: int,
        time: VirtualTime,
        network: Network,
        clock: WallClock,
        seed: int,
    ) -> None:
        self.name = name
        self.life = life
        self.clock = clock
        self.time = time
        self.loop = ProcessLoop(time, name)  # type: ignore[abstract]
        self.network = network
        self.environment = SimulatedEnvironment(self, Random(f"{seed}/{name}/{life}"))  # noqa: S311

    @property
    def is_alive(self) -> bool:
        return not self.loop.is_ended

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.loop.end()
        self.network.close_all_of(self.loop)

    def exited(self) -> None:
        """It has ended by itself: the system closes what it left open."""
        self.kill()


class SimulatedEnvironment(Environment):
    """What one process has from outside."""

    def __init__(self, process: Process, random: Random) -> None:
        self._process = process
        self._random = random
        self._time = process.time
        self._booted = 1000.0 + crc32(process.name.encode()) % 100_000

    def wall(self) -> float:
        return self._process.clock()

    def monotonic(self) -> float:
        return self._time.now + self._booted

    def lease_clock(self) -> float:
        return self.monotonic()

    def random(self) -> float:
        return self._random.random()

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def hostname(self) -> str:
        return self._process.name

    def pid(self) -> int:
        return self._process.life

    def boot_id(self) -> str:
        return f"the host of {self._process.name}"

    def tune_process(self) -> None:
        """Others are in this process."""

    def max_connections(self) -> int:
        return 0

    def zmq_context(self) -> ZmqContext:
        return cast(ZmqContext, _NoContext())

    def bound_router(
        self,
        context: ZmqContext,
        address: str,
        receive: Receive,
        *,
        max_message_bytes: int,
        high_water_mark: int,
        max_connections: int = 0,
        curve: CurveListener | None = None,
    ) -> LoopSocket:
        process = self._process
        return process.network.zmq.bind(
            process.loop, address, receive, high_water_mark=high_water_mark
        )

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
        process = self._process
        return process.network.zmq.connect(process.loop, address, receive, identity=identity)

    def datagram_socket(
        self,
        host: str,
        port: int,
        on_batch: Callable[[Batch], None],
        *,
        at_once: int = PACKETS_AT_ONCE,
    ) -> DatagramSocket:
        process = self._process
        return process.network.datagrams.bind(process.loop, port, on_batch, at_once)

    async def resolved(self, host: str, port: int) -> UdpAddress:
        return host, port

    def http_server(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        key: str,
        remedy: str,
        tls: ServerFiles | None = None,
        max_connections: int = 0,
    ) -> HttpServer:
        process = self._process
        return process.network.http.bound(process.loop, app, port)

    def caller(
        self,
        *,
        at_once: int,
        may_call: Callable[[str, str], bool] = lambda host, address: True,
        headers: Mapping[str, str] | None = None,
        tls: CallerFiles | None = None,
    ) -> Caller:
        return SimulatedCaller(self._process.network.http, self._process.loop)


class _NoContext:
    def term(self) -> None:
        """There is nothing to end."""
