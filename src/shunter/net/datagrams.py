"""A UDP socket on the event loop: batches in, single sends out, nothing that blocks or raises.

Each time the socket is readable all that waits is taken, up to a bound, so that a flood costs one
round of the loop per batch and not per packet. A send that the system can't take yet waits in a
short line. Where the line is full the packet is dropped, as the network itself may drop it: what
must arrive is sent again by `wire/udp/transmissions.py`. Knows addresses and bytes, no packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable

from shunter.wire.udp.peers import UdpAddress

PACKETS_AT_ONCE = 512
BUFFER_BYTES = 8 * 1024 * 1024
"""Asked of the system for each direction, which may grant less (net.core.rmem_max)."""
MAX_WAITING = 10_000
LARGEST_DATAGRAM = 65_535

Batch = list[tuple[bytes, UdpAddress]]


class DatagramSocket:
    """One bound socket. `on_batch` is called with packets and whence they came, in order.

    Addresses to send to are numeric: a name would be looked up, and block. `port` 0 lets the
    system pick one. Where the address can't be had, this raises OSError. `at_once` is the most that
    is taken in one round of the loop. Who rarely has two packets waiting does best with 1, since
    to find out that no more wait takes as long as to read one.
    """

    def __init__(
        self,
        host: str,
        port: int,
        on_batch: Callable[[Batch], None],
        *,
        at_once: int = PACKETS_AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._on_batch = on_batch
        self._socket = _bound(host, port)
        self._buffer = bytearray(LARGEST_DATAGRAM)
        self._view = memoryview(self._buffer)
        self._waiting: deque[tuple[bytes, UdpAddress]] = deque()
        self._is_paused = True
        self.address: UdpAddress = self._socket.getsockname()[:2]
        self.dropped = 0
        """Packets not sent, since the line was full."""
        self.errors = 0
        """Sends and receives that the system refused."""
        self.resume()

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def send(self, packet: bytes, address: UdpAddress) -> None:
        """Send a packet, or let it wait a moment, or drop it; never raise."""
        if self._waiting:
            self._wait(packet, address)
            return
        try:
            self._socket.sendto(packet, address)
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._socket, self._send_waiting)
            self._wait(packet, address)
        except (OSError, OverflowError, ValueError):
            self.errors += 1

    def pause(self) -> None:
        """Stop reading: the system's buffer fills up, then it drops what comes."""
        if not self._is_paused and not self.is_closed:
            self._loop.remove_reader(self._socket)
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused and not self.is_closed:
            self._loop.add_reader(self._socket, self._receive)
            self._is_paused = False

    def close(self) -> None:
        """Close the socket. What waits gets one more chance."""
        if self.is_closed:
            return
        if self._waiting:
            self._send_waiting()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._waiting.clear()
        self._socket.close()

    def _receive(self) -> None:
        batch: Batch = []
        receive, buffer, view = self._socket.recvfrom_into, self._buffer, self._view
        for _ in range(self._at_once):
            try:
                size, address = receive(buffer)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.errors += 1
                continue
            batch.append((view[:size].tobytes(), address[:2]))
        if batch:
            self._on_batch(batch)

    def _wait(self, packet: bytes, address: UdpAddress) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((packet, address))
        else:
            self.dropped += 1

    def _send_waiting(self) -> None:
        waiting, send = self._waiting, self._socket.sendto
        while waiting:
            try:
                send(*waiting[0])
            except (BlockingIOError, InterruptedError):
                return
            except (OSError, OverflowError, ValueError):
                self.errors += 1
            waiting.popleft()
        self._loop.remove_writer(self._socket)


def _bound(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setblocking(False)
        for direction in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, direction, BUFFER_BYTES)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
