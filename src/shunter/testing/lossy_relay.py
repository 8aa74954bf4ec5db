"""A bad network between UDP peers, made here: packets get lost, doubled, late and out of order.

Those under test talk to the relay's address instead of the dispatcher's. For each of them the relay
has a socket of its own towards the dispatcher, which therefore sees as many addresses as there are
peers, and answers each through the relay. What befalls a packet is drawn from a generator that is
seeded for each peer and direction, so it does not depend on what the others send.

It runs in a thread of its own, on real sockets. What the kernel drops because a buffer is full is
not counted here.
"""

from __future__ import annotations

import contextlib
import heapq
import selectors
import socket
import threading
import time
from random import Random
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

Address = tuple[str, int]

BUFFER_BYTES = 4 * 1024 * 1024
MAX_DATAGRAM = 65_535
AT_ONCE = 64
"""How many packets of one socket are taken before the next socket has its turn."""


class Weather(Struct, frozen=True, kw_only=True):
    """How bad the network is: the share of packets each thing happens to, and seconds.

    Every copy takes from `delay[0]` to `delay[1]`. One that is held back takes `hold` more, which
    lets those behind it overtake.
    """

    loss: float = 0.0
    doubles: float = 0.0
    held_back: float = 0.0
    hold: float = 0.02
    delay: tuple[float, float] = (0.0, 0.0)


class Traffic(Struct, kw_only=True):
    """What the relay has done so far, in packets; `sent` counts copies."""

    received: int = 0
    lost: int = 0
    doubled: int = 0
    held_back: int = 0
    sent: int = 0
    failed: int = 0


class Fate:
    """Decides what befalls the packets of one peer in one direction."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)  # noqa: S311, tests must be repeatable

    def delays(self, weather: Weather, traffic: Traffic) -> list[float]:
        """Return after how many seconds each copy of the next packet is to be sent."""
        draw = self._random.random
        if draw() < weather.loss:
            traffic.lost += 1
            return []
        copies = 1
        if draw() < weather.doubles:
            traffic.doubled += 1
            copies = 2
        delays = []
        for _ in range(copies):
            shortest, longest = weather.delay
            delay = shortest + draw() * (longest - shortest)
            if draw() < weather.held_back:
                traffic.held_back += 1
                delay += weather.hold
            delays.append(delay)
        return delays


class _Line:
    """One peer's way to the dispatcher and back."""

    def __init__(self, peer: Address, upstream: Address, seed: str) -> None:
        self.peer = peer
        self.there, self.back = Fate(f"{seed} there"), Fate(f"{seed} back")
        family = socket.AF_INET6 if ":" in upstream[0] else socket.AF_INET
        self.socket = _socket(family)
        self.socket.connect(upstream)


class LossyRelay:
    """Relays packets to `upstream` and back from the moment it is made until it is closed."""

    def __init__(
        self, upstream: Address, weather: Weather, *, seed: int, host: str = "127.0.0.1"
    ) -> None:
        self._upstream, self._seed = upstream, seed
        self.weather = weather
        """May be set at any time; it holds for packets that arrive from then on."""
        self._traffic = Traffic()
        self._lines: dict[Address, _Line] = {}
        self._waiting: list[tuple[float, int, bytes, _Line, bool]] = []
        self._number = 0
        self._door = _socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._door.bind((host, 0))
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="lossy-relay", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> Address:
        """Where peers send their packets."""
        host, port, *_ = self._door.getsockname()
        return host, port

    @property
    def traffic(self) -> Traffic:
        """What has happened so far."""
        return replace(self._traffic)

    @property
    def pending(self) -> int:
        """How many copies are still to be sent."""
        return len(self._waiting)

    def close(self) -> None:
        """Stop, and drop what was still to be sent."""
        if self._is_closing:
            return
        self._is_closing = True
        self._wake.send(b"\0")
        self._thread.join()
        self._selector.close()
        ways = [line.socket for line in self._lines.values()]
        for opened in (self._door, self._wake, self._woken, *ways):
            opened.close()

    # ---- in the thread

    def _run(self) -> None:
        while not self._is_closing:
            due = self._waiting[0][0] - time.monotonic() if self._waiting else None
            for key, _ in self._selector.select(due if due is None else max(0.0, due)):
                if key.fileobj is self._door:
                    self._take_from_peers()
                elif isinstance(key.data, _Line):
                    self._take_from_upstream(key.data)
            self._send_what_is_due()

    def _take_from_peers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                packet, (host, port, *_) = self._door.recvfrom(MAX_DATAGRAM)
                try:
                    line = self._lines.get((host, port)) or self._open((host, port))
                except OSError:  # too many peers for one process
                    self._traffic.failed += 1
                    continue
                self._accept(packet, line, is_upwards=True)

    def _take_from_upstream(self, line: _Line) -> None:
        for _ in range(AT_ONCE):
            try:
                packet = line.socket.recv(MAX_DATAGRAM)
            except BlockingIOError:
                return
            except OSError:  # nobody listens there at the moment
                self._traffic.failed += 1
                continue
            self._accept(packet, line, is_upwards=False)

    def _open(self, peer: Address) -> _Line:
        line = self._lines[peer] = _Line(peer, self._upstream, f"{self._seed} {len(self._lines)}")
        self._selector.register(line.socket, selectors.EVENT_READ, line)
        return line

    def _accept(self, packet: bytes, line: _Line, *, is_upwards: bool) -> None:
        self._traffic.received += 1
        fate = line.there if is_upwards else line.back
        for delay in fate.delays(self.weather, self._traffic):
            if not delay:
                self._send(packet, line, is_upwards)
                continue
            self._number += 1
            due = time.monotonic() + delay
            heapq.heappush(self._waiting, (due, self._number, packet, line, is_upwards))

    def _send_what_is_due(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, packet, line, is_upwards = heapq.heappop(self._waiting)
            self._send(packet, line, is_upwards)

    def _send(self, packet: bytes, line: _Line, is_upwards: bool) -> None:
        try:
            if is_upwards:
                line.socket.send(packet)
            else:
                self._door.sendto(packet, line.peer)
            self._traffic.sent += 1
        except OSError:  # a full buffer, or nobody there: a packet is lost, as packets are
            self._traffic.failed += 1


def _socket(family: socket.AddressFamily) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_DGRAM)
    opened.setblocking(False)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        opened.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    return opened
