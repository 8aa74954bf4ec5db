"""A ZeroMQ socket on the event loop: batches in, single sends out, nothing that blocks.

ZeroMQ's file descriptor is edge-triggered: it must be drained after each signal, and looked at
again after each send. That, and bounds on all sizes, is all this module knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq

from shunter.model.key import CurvePair
from shunter.net.curve import CurveListener, IsKnown, connect_with, listen_with

MESSAGES_AT_ONCE = 512
BYTES_AT_ONCE = 8 * 1024 * 1024

TRACKED_BYTES = 16 * 1024
"""Frames of this size and above are counted until ZeroMQ has handed them to the system."""

UNSENT_BYTES_PER_PEER = 32 * 1024 * 1024
UNSENT_WHOLE_BYTES = 64 * 1024 * 1024
"""So much of them may wait for one peer; and so much for all, of those that came in one piece.
One always may: no peer waits because others don't read, unless it wants as much as they do."""

WHOLE_BYTES = 128 * 1024
"""Above this a frame is a large message in one piece, and neither a part nor many small ones."""

REMEMBERED_PEERS = 100_000
"""Of so many peers it is known which key they have shown."""

RECEIVED_AHEAD = 4
"""How many messages of one peer ZeroMQ reads before we take them; the rest waits at the peer."""

# As plain numbers: pyzmq's own are enumerations, whose `|` and `&` cost more than a send.
_NOBLOCK, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_FAILURES = int(
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)

ZmqContext = zmq.Context[zmq.Socket[bytes]]
Receive = Callable[[list[list[bytes]]], None]


class Peer(bytes):
    """The identity of who has sent a message, and the CURVE key under which it came."""

    public: str

    @classmethod
    def of(cls, frame: zmq.Frame) -> Peer:
        peer = cls(frame.bytes)
        peer.public = str(frame.get("User-Id"))
        return peer


class LoopSocket:
    """One socket. `receive` is called with all messages that were waiting.

    Where peers show keys, the first frame of each message is a `Peer`, and nothing is sent to one
    whose key is not known any more.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], receive: Receive, *, is_known: IsKnown | None = None
    ) -> None:
        self._socket = socket
        self._peers = None if is_known is None else KeyedPeers(is_known)
        self._read = self._read_plain if is_known is None else self._read_keyed
        self._socket.copy_threshold = TRACKED_BYTES
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._monitor: zmq.Socket[bytes] | None = None
        self._is_paused = False
        self._will_drain = False
        self._unsent = UnsentBytes()
        fd = socket.getsockopt(zmq.FD)
        assert isinstance(fd, int)
        self._fd = fd
        self._loop.add_reader(fd, self._drain)
        self._look_again()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send a message; False where the peer is gone or takes no more."""
        send, last = self._socket.send, frames[-1]
        if self._peers is not None and not self._peers.may_receive(frames[0]):
            return False
        is_large = len(last) >= TRACKED_BYTES
        if is_large and not self._unsent.has_room(frames[0], len(last)):
            return False
        try:
            for frame in frames[:-1]:
                send(frame, _MORE)
            if is_large:
                tracker = send(last, _NOBLOCK, copy=False, track=True)
                self._unsent.add(tracker, frames[0], len(last))
            else:
                send(last, _NOBLOCK)
        except zmq.ZMQError:
            return False
        finally:
            # A send may swallow the signal that something has arrived.
            if not self._socket.closed and self._has_message():
                self._look_again()
        return True

    def watch_handshakes(self) -> None:
        """Have ZeroMQ tell of peers that we could not come to terms with."""
        self._monitor = self._socket.get_monitor_socket(_FAILURES)

    def was_rejected(self) -> bool:
        """True if whoever is there did not accept us, since this was asked last."""
        seen = False
        while self._monitor is not None and self._monitor.poll(0):
            self._monitor.recv_multipart(_NOBLOCK)
            seen = True
        return seen

    def pause(self) -> None:
        """Stop reading: the peers' own queues fill up, and they wait."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._look_again()

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove_reader(self._fd)
            if self._monitor is not None:
                self._socket.disable_monitor()
                self._monitor.close(0)
            self._socket.close()

    def _has_message(self) -> bool:
        """True if something waits; cheaper than to find out by an exception."""
        return int(self._socket.getsockopt(_EVENTS)) & _POLLIN != 0

    def _look_again(self) -> None:
        if not self._will_drain:
            self._will_drain = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._will_drain = False
        if self._is_paused or self._socket.closed:
            return
        batch: list[list[bytes]] = []
        size = 0
        while self._has_message():
            if len(batch) >= MESSAGES_AT_ONCE or size >= BYTES_AT_ONCE:
                self._look_again()
                break
            frames = self._read()
            size += sum(map(len, frames))
            batch.append(frames)
        if batch:
            self._receive(batch)

    def _read_plain(self) -> list[bytes]:
        return self._socket.recv_multipart(_NOBLOCK)

    def _read_keyed(self) -> list[bytes]:
        first, *rest = self._socket.recv_multipart(_NOBLOCK, copy=False)
        peer = Peer.of(first)
        assert self._peers is not None
        self._peers.heard(peer)
        return [peer, *(frame.bytes for frame in rest)]


class KeyedPeers:
    """Under which key each peer has spoken last. One that has not, or long ago, is sent nothing."""

    def __init__(self, is_known: IsKnown) -> None:
        self._is_known = is_known
        self._publics: dict[bytes, str] = {}

    def heard(self, peer: Peer) -> None:
        self._publics.pop(peer, None)  # the latest stand last
        self._publics[bytes(peer)] = peer.public
        if len(self._publics) > REMEMBERED_PEERS:
            del self._publics[next(iter(self._publics))]

    def may_receive(self, identity: bytes) -> bool:
        public = self._publics.get(identity)
        return public is not None and self._is_known(public)


class UnsentBytes:
    """Large frames that ZeroMQ still keeps in memory, by the first frame of their message."""

    def __init__(self) -> None:
        self._frames: list[tuple[zmq.MessageTracker, bytes, int]] = []
        self._sizes: dict[bytes, int] = {}
        self._whole = 0

    def add(self, tracker: zmq.MessageTracker, peer: bytes, size: int) -> None:
        self._frames.append((tracker, peer, size))
        self._sizes[peer] = self._sizes.get(peer, 0) + size
        self._whole += size if size > WHOLE_BYTES else 0

    def has_room(self, peer: bytes, size: int) -> bool:
        self._forget_sent()
        of_peer = self._sizes.get(peer, 0)
        if of_peer and of_peer + size > UNSENT_BYTES_PER_PEER:
            return False
        return size <= WHOLE_BYTES or not self._whole or self._whole + size <= UNSENT_WHOLE_BYTES

    def _forget_sent(self) -> None:
        kept = []
        for entry in self._frames:
            tracker, peer, size = entry
            if not tracker.done:
                kept.append(entry)
                continue
            self._whole -= size if size > WHOLE_BYTES else 0
            self._sizes[peer] -= size
            if not self._sizes[peer]:
                del self._sizes[peer]
        self._frames = kept


def bound_router(
    context: ZmqContext,
    address: str,
    receive: Receive,
    *,
    max_message_bytes: int,
    high_water_mark: int,
    curve: CurveListener | None = None,
) -> LoopSocket:
    """Listen at `address`. A send to a peer that is not there fails instead of vanishing.

    With `curve`, whoever connects has to show a key that the context's CurveGate knows.
    """
    socket = context.socket(zmq.ROUTER)
    try:
        socket.linger = 0
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
        socket.setsockopt(zmq.SNDHWM, high_water_mark)
        socket.setsockopt(zmq.RCVHWM, RECEIVED_AHEAD)
        if curve is not None:
            listen_with(socket, curve.pair)
        socket.bind(address)
    except zmq.ZMQError:
        socket.close()
        raise
    return LoopSocket(socket, receive, is_known=None if curve is None else curve.is_known)


def connected_dealer(
    context: ZmqContext,
    address: str,
    receive: Receive,
    *,
    identity: bytes,
    max_message_bytes: int = -1,
    high_water_mark: int = 10_000,
    curve: CurvePair | None = None,
) -> LoopSocket:
    """Connect to `address`, now and again whenever the connection breaks."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.setsockopt(zmq.IDENTITY, identity)
    socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    socket.set_hwm(high_water_mark)
    if curve is not None:
        connect_with(socket, curve)
    socket.connect(address)
    return LoopSocket(socket, receive)
