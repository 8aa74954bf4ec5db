"""The connections of one ZeroMQ socket: how many there may be, and how much each may leave unread.

ZeroMQ's own limits count whole messages and single frames. A message in ever more frames is
neither: it piles up in ZeroMQ's memory until its last frame comes, which may be never. So the
kernel is asked how many bytes each connection has brought, and one that has brought more than any
message has, without a message that arrived, is cut off. What was left of its message goes with it;
the peer may connect again. Connections that are not TCP can't be measured, and belong to the
same user (ipc). Spec: docs/spec/ping-pong.md, section 9.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import socket as sockets
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import zmq
from msgspec import Struct

MAX_CONNECTIONS = 4096
"""How many a socket has at most."""

HANDSHAKE_MILLISECONDS = 5_000
"""How long a peer may take to say that it speaks ZeroMQ."""

LOOK_SECONDS, WATCHFUL_SECONDS, SECONDS_EACH = 0.25, 0.05, 0.0002
"""How often connections are looked at; while there is much unread; and later for each of them."""

GLANCE_SECONDS = 0.04
"""How often the size of the process is looked at, which costs next to nothing. At the full speed of
loopback, 2 to 3 GB/s, a message without an end grows by 100 MB meanwhile."""

MOST_TRIMS = 40
"""How often memory is given back after somebody was cut off, until it is as it was."""

GROWTH_BYTES = 16 * 1024 * 1024
"""Connections are looked at whenever the process has grown by so much."""

SMALL_BYTES = 1024 * 1024
"""Who has brought less than this of a message is not in question."""

UNREAD_BYTES = 256 * 1024 * 1024
"""How much ZeroMQ may hold, for all connections of a socket, of messages nobody has read."""

INEXPLICABLE_BYTES = 128 * 1024 * 1024
"""By how much the process may grow beyond twice what was brought: many tiny frames take far more
memory than they have bytes. Large jobs of others that come and go take as much as this."""

LARGE_BLOCK_BYTES = 1024 * 1024
"""A block of memory of so much is large."""

KEPT_BYTES = 16 * 1024 * 1024
"""So much that was freed in small blocks is kept for those that come."""

STATM = "/proc/self/statm"

_INFO_BYTES = 136
"""The kernel's `tcp_info` up to and with `tcpi_bytes_received`, which Linux has since 4.1."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""As `malloc.h` of the GNU C library has it; others have no `mallopt`, or do not know it."""

T = TypeVar("T")

_EVENT = struct.Struct("=HI")
_OPENED = (int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_CONNECTED))
_REJECTED = (
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH),
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL),
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL),
)
_EVENTS = sum(_OPENED) + sum(_REJECTED) + int(zmq.EVENT_DISCONNECTED)
_SRCFD, _NOBLOCK = int(zmq.SRCFD), int(zmq.NOBLOCK)


class Brought(Struct):
    """How many bytes one connection has brought, and how many when it was last heard."""

    total: int = 0
    counted: int = 0


def excess(
    unread: Mapping[int, int], growth: int, *, most: int, together: int = UNREAD_BYTES
) -> list[int]:
    """Choose the connections to cut off, by the bytes of each that became no message yet.

    One may have `most`, and all `together`; `growth` is by how much the process has grown since
    nothing was unread. Pure.
    """
    chosen = [name for name, size in unread.items() if size > most]
    rest = sorted((size, name) for name, size in unread.items() if size <= most)
    pile = sum(size for size, _ in rest)
    is_inexplicable = not chosen and growth > 2 * pile + INEXPLICABLE_BYTES
    while rest and (pile > together or is_inexplicable):
        size, name = rest.pop()
        if size < SMALL_BYTES:
            break
        chosen.append(name)
        pile -= size
        is_inexplicable = False
    return chosen


class Connections:
    """Watches a socket, from before it is bound or connected until `close`.

    `most` is how many connections there may be: a newcomer takes the place of whoever has said
    nothing at all yet, else of whoever has been silent the longest.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        *,
        most: int,
        message_bytes: int,
        process_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._most, self._message_bytes = most, message_bytes
        self._process_bytes = process_bytes or resident_bytes
        self._mute: OrderedDict[int, Brought] = OrderedDict()
        self._spoken: OrderedDict[int, Brought] = OrderedDict()
        self._heard: set[int] = set()
        self.heard_peers: set[bytes] = set()
        self._calm_bytes = self._seen_bytes = self._process_bytes()
        self._was_rejected = False
        self._trims_left, self._bytes_before = 0, 0
        self._is_watchful = False
        self.cut_off = 0
        self._socket = socket
        address = f"inproc://connections-{secrets.token_hex(8)}"
        socket.monitor(address, _EVENTS)
        self.events = context.socket(zmq.PAIR)
        self.events.linger = 0
        self.events.setsockopt(zmq.RCVHWM, 0)  # ZeroMQ's own thread would wait for us
        self.events.connect(address)
        self.take_events()  # its descriptor signals only what comes after a look

    def __len__(self) -> int:
        return len(self._mute) + len(self._spoken)

    @property
    def look_seconds(self) -> float:
        """How soon the next look should come; it costs more with more connections."""
        return WATCHFUL_SECONDS + len(self) * SECONDS_EACH if self._is_watchful else LOOK_SECONDS

    def is_look_due(self, *, since: float) -> bool:
        """True if the last look was too long ago, or if the process has grown a lot since."""
        return since >= self.look_seconds or (
            self._process_bytes() - self._seen_bytes >= GROWTH_BYTES
        )

    def close(self) -> None:
        """Stop watching; to be called before the socket is closed."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disable_monitor()
        self.events.close()

    def take_events(self) -> None:
        """Learn who has come and gone; cut off those for whom there is no room."""
        while True:
            try:
                event, _ = self.events.recv_multipart(_NOBLOCK)
            except (zmq.Again, zmq.ZMQError, ValueError):
                return
            kind, fd = _EVENT.unpack(event)
            if kind in _REJECTED:
                self._was_rejected = True
                continue
            self._mute.pop(fd, None)
            self._spoken.pop(fd, None)
            if kind in _OPENED:
                self._mute[fd] = Brought()
                if len(self) > self._most:
                    self._make_room(fd)

    def was_rejected(self) -> bool:
        """True if a peer and we could not come to terms, since this was asked last."""
        self.take_events()
        seen, self._was_rejected = self._was_rejected, False
        return seen

    def heard(self, peer: bytes, frame: zmq.Frame) -> None:
        """A message has come, with this frame in it, from a peer not heard since the last look."""
        self.heard_peers.add(peer)
        try:
            fd = frame.get(_SRCFD)
        except (zmq.ZMQError, ValueError):
            return
        assert isinstance(fd, int)
        self._heard.add(fd)
        if (brought := self._mute.pop(fd, None)) is not None:
            self._spoken[fd] = brought
        elif fd in self._spoken:
            self._spoken.move_to_end(fd)

    def cut_off_sender(self, frame: zmq.Frame) -> None:
        """End the connection on which a message with this frame has come."""
        with contextlib.suppress(zmq.ZMQError, ValueError):
            fd = frame.get(_SRCFD)
            assert isinstance(fd, int)
            self._cut_off(fd)

    def look(self, *, messages_ahead: int) -> None:
        """Cut off those who leave too much unread.

        `messages_ahead` is how many whole messages of each peer may wait for us besides.
        """
        self.heard_peers.clear()
        self.take_events()
        now = self._process_bytes()
        if self._trims_left and now - self._bytes_before >= GROWTH_BYTES:
            self._trims_left -= 1
            return_memory()
            now = self._process_bytes()
        self._seen_bytes = min(self._seen_bytes, now)
        is_grown = now - self._seen_bytes >= GROWTH_BYTES
        if not len(self) or not (is_grown or self._is_watchful):
            self._is_watchful = False
            return
        self._seen_bytes = now
        unread = {fd: size for fd, size in self._unread().items() if size >= SMALL_BYTES}
        self._is_watchful = bool(unread)
        if not unread:
            self._calm_bytes = now
            return
        chosen = excess(
            unread,
            0 if messages_ahead else now - self._calm_bytes,
            most=(1 + messages_ahead) * self._message_bytes + SMALL_BYTES,
            together=max(UNREAD_BYTES, 2 * self._message_bytes),
        )
        if chosen:
            # ZeroMQ lets go of it in its own time
            self._trims_left, self._bytes_before = MOST_TRIMS, self._calm_bytes
        for fd in chosen:
            self._cut_off(fd)

    def _unread(self) -> dict[int, int]:
        """Return how many bytes each connection has brought since it was last heard."""
        unread = {}
        for fd, brought in [*self._mute.items(), *self._spoken.items()]:
            total = bytes_received(fd)
            if total is None:
                continue
            if fd in self._heard or total < brought.total:
                brought.counted = total if fd in self._heard else 0
            brought.total = total
            unread[fd] = total - brought.counted
        self._heard.clear()
        return unread

    def _make_room(self, newcomer: int) -> None:
        for line in (self._mute, self._spoken):
            for fd in line:
                if fd != newcomer:
                    del line[fd]
                    self._cut_off(fd)
                    return

    def _cut_off(self, fd: int) -> None:
        self.cut_off += 1
        with contextlib.suppress(OSError):
            _with_socket(fd, _hang_up)


def bytes_received(fd: int) -> int | None:
    """Ask the kernel how many bytes a TCP connection has brought; None if it can't tell."""
    try:
        info = _with_socket(fd, _tcp_info)
    except OSError:
        return None
    return None if len(info) < _INFO_BYTES else int.from_bytes(info[-8:], sys.byteorder)


def resident_bytes() -> int:
    """Return how much memory this process takes; 0 if the system does not tell."""
    try:
        pages = os.pread(_opened_statm(), 256, 0).split()[1]
    except OSError:
        return 0
    return int(pages) * _PAGE_BYTES


@cache
def _opened_statm() -> int:
    """Open what the kernel tells of this process: it is read fifty times a second."""
    return os.open(STATM, os.O_RDONLY)


os.register_at_fork(after_in_child=_opened_statm.cache_clear)  # else it would speak of the parent


def return_memory() -> None:
    """Give the system back what the C library keeps of freed memory, where it can be asked to.

    Else a process would seem as large as it was, and what comes next would go unseen.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """See to it that the C library gives each large block back to the system as soon as it is free.

    It would keep the next ones after the first, and several large messages would leave holes.
    Small ones it keeps as before: to ask for memory again and again takes time.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def _hang_up(connection: sockets.socket) -> None:
    """End a connection at both ends at once; ZeroMQ sees it and lets go of it."""
    connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(sockets.SHUT_RDWR)


def _tcp_info(connection: sockets.socket) -> bytes:
    return connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _INFO_BYTES)


def _with_socket(fd: int, use: Callable[[sockets.socket], T]) -> T:
    """Borrow a descriptor that is ZeroMQ's; an OSError if it is no socket any more."""
    borrowed = sockets.socket(sockets.AF_INET, sockets.SOCK_STREAM, 0, fileno=fd)
    try:
        return use(borrowed)
    finally:
        borrowed.detach()
