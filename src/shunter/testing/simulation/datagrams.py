"""UDP between simulated processes: packets that may be lost, doubled, late, or out of order.

Each process is a host with an address of its own. What is sent while a wire is cut is lost, as is
what arrives where nobody listens. A process that stands still finds later what came meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from shunter.net.datagrams import Batch, DatagramSocket
from shunter.testing.simulation.links import Wires
from shunter.testing.simulation.loop import ProcessLoop
from shunter.wire.udp.peers import UdpAddress

BUFFERED_PACKETS = 300
"""What the system keeps for a process that does not read."""
JITTER_SECONDS = 0.0005
LATE_SECONDS = 0.4
"""By so much at most packets are late that come out of order."""
FIRST_PORT = 40_000


class PacketTap(Protocol):
    """Hears what is sent."""

    def packet_sent(self, source: UdpAddress, target: UdpAddress, packet: bytes) -> None: ...


class SimulatedDatagramSocket(DatagramSocket):
    """One bound socket."""

    def __init__(
        self,
        network: DatagramNetwork,
        loop: ProcessLoop,
        address: UdpAddress,
        on_batch: Callable[[Batch], None],
        at_once: int,
    ) -> None:
        self.loop = loop
        self.address = address
        self.dropped = self.errors = 0
        self.inbox: deque[tuple[bytes, UdpAddress]] = deque()
        self._network = network
        self._on_batch = on_batch
        self._at_once = at_once
        self._is_paused = False
        self._has_closed = False

    @property
    def is_closed(self) -> bool:
        return self._has_closed

    def send(self, packet: bytes, address: UdpAddress) -> None:
        if not self._has_closed and not self.loop.is_ended:
            self._network.send(self, packet, address)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.loop.call_soon(self._drain)

    def close(self) -> None:
        if not self._has_closed:
            self._has_closed = True
            self._network.unbind(self)

    def deliver(self, packet: bytes, source: UdpAddress) -> None:
        if len(self.inbox) < BUFFERED_PACKETS:
            self.inbox.append((packet, source))
            if len(self.inbox) == 1:
                self.loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self._is_paused or self._has_closed or not self.inbox:
            return
        batch = [self.inbox.popleft() for _ in range(min(len(self.inbox), self._at_once))]
        if self.inbox:
            self.loop.call_soon(self._drain)
        self._on_batch(batch)


class DatagramNetwork:
    """Who listens at which address."""

    def __init__(self, wires: Wires, names: tuple[str, ...]) -> None:
        self._wires = wires
        self._hosts = {name: f"10.0.0.{number}" for number, name in enumerate(names, start=1)}
        self.names = {host: name for name, host in self._hosts.items()}
        self._sockets: dict[UdpAddress, SimulatedDatagramSocket] = {}
        self._next_port = FIRST_PORT
        self.taps: list[PacketTap] = []

    def host_of(self, name: str) -> str:
        return self._hosts[name]

    def bind(
        self, loop: ProcessLoop, port: int, on_batch: Callable[[Batch], None], at_once: int
    ) -> SimulatedDatagramSocket:
        if not port:
            self._next_port += 1
        address = self._hosts[loop.name], port or self._next_port
        assert address not in self._sockets, f"{address} is taken"
        bound = SimulatedDatagramSocket(self, loop, address, on_batch, at_once)
        self._sockets[address] = bound
        return bound

    def unbind(self, bound: SimulatedDatagramSocket) -> None:
        del self._sockets[bound.address]

    def close_all_of(self, loop: ProcessLoop) -> None:
        """A process has died: the system closes its sockets."""
        for bound in [bound for bound in self._sockets.values() if bound.loop is loop]:
            bound.close()

    def send(self, source: SimulatedDatagramSocket, packet: bytes, target: UdpAddress) -> None:
        for tap in self.taps:
            tap.packet_sent(source.address, target, packet)
        wires, random = self._wires, self._wires.random
        wire = wires.between(source.loop.name, self.names[target[0]])
        copies = 1 + (random.random() < wire.duplicated)
        for _ in range(copies):
            if wire.cuts or random.random() < wire.lost:
                wire.dropped_at = wires.time.now
                continue
            takes = wire.latency + wire.extra_latency + JITTER_SECONDS * random.random()
            if wire.bytes_per_second is not None:
                takes += len(packet) / wire.bytes_per_second
            if random.random() < wire.late:
                takes += LATE_SECONDS * random.random()
            wires.time.at(wires.time.now + takes, self._arrive, packet, source.address, target)

    def _arrive(self, packet: bytes, source: UdpAddress, target: UdpAddress) -> None:
        bound = self._sockets.get(target)
        if bound is not None:
            self._wires.arrived([packet])
            bound.deliver(packet, source)

    def most_waiting(self) -> int:
        """Return how many packets wait in the longest queue."""
        return max((len(bound.inbox) for bound in self._sockets.values()), default=0)
