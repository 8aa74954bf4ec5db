"""A ZeroMQ socket on the event loop: batches in, single sends out, nothing that blocks.

ZeroMQ's file descriptor is edge-triggered: it must be drained after each signal, and looked at
again after each send. That, and bounds on all sizes, is all this module knows.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import zmq

from shunter.model.key import CurvePair
from shunter.net.connections import (
    GLANCE_SECONDS,
    HANDSHAKE_MILLISECONDS,
    MAX_CONNECTIONS,
    Connections,
)
from shunter.net.curve import CurveListener, IsKnown, connect_with, listen_with
from shunter.net.unsent_bytes import UnsentBytes

MESSAGES_AT_ONCE = 512
BYTES_AT_ONCE = 8 * 1024 * 1024

FRAMES_AT_MOST = 16
"""More than any message of ours has; what a peer sends beyond is thrown away."""

FRAMES_AT_ONCE = 10_000
"""How many of those are thrown away before others have a turn."""

REMEMBERED_PEERS = 100_000
"""Of so many peers it is known which key they have shown."""

RECEIVED_AHEAD = 4
"""How many messages of one peer ZeroMQ reads before we take them; the rest waits at the peer."""

# As plain numbers: pyzmq's own are enumerations, whose `|` and `&` cost more than a send.
_NOBLOCK, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_RCVMORE = int(zmq.RCVMORE)

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
        self,
        socket: zmq.Socket[bytes],
        receive: Receive,
        connections: Connections,
        *,
        is_known: IsKnown | None = None,
    ) -> None:
        self._socket = socket
        self._peers = None if is_known is None else KeyedPeers(is_known)
        self._socket.copy_threshold = 0  # else small frames would not be tracked
        self._connections = connections
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._is_paused = False
        self._will_drain = False
        self._was_paused = False
        self._is_discarding = False
        self._unsent = UnsentBytes()
        self._fd, self._events_fd = _descriptor(socket), _descriptor(connections.events)
        self._loop.add_reader(self._fd, self._drain)
        self._loop.add_reader(self._events_fd, connections.take_events)
        self._look_again()
        self._looked_at = -math.inf
        self._glance()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send a message; False where the peer is gone or takes no more."""
        send, last = self._socket.send, frames[-1]
        if self._peers is not None and not self._peers.may_receive(frames[0]):
            return False
        size = self._unsent.due(frames[0], len(last))
        if size and not self._unsent.has_room(frames[0], size):
            return False
        try:
            for frame in frames[:-1]:
                send(frame, _MORE)
            if size:
                tracker = send(last, _NOBLOCK, copy=False, track=True)
                self._unsent.add(tracker, frames[0], size)
            else:
                send(last, _NOBLOCK)
        except zmq.ZMQError:
            return False
        finally:
            # A send may swallow the signal that something has arrived.
            if not self._socket.closed and self._has_message():
                self._look_again()
        return True

    def has_room(self, peer: bytes) -> bool:
        """True if a peer reads what it is sent, as far as is known."""
        return self._unsent.has_room(peer, 1)

    @property
    def cut_off(self) -> int:
        """How many connections were ended because they took too much."""
        return self._connections.cut_off

    def was_rejected(self) -> bool:
        """True if whoever is there did not accept us, since this was asked last."""
        return self._connections.was_rejected()

    def pause(self) -> None:
        """Stop reading: the peers' own queues fill up, and they wait."""
        self._is_paused = self._was_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._look_again()

    def close(self) -> None:
        if not self._socket.closed:
            self._timer.cancel()
            self._loop.remove_reader(self._fd)
            self._loop.remove_reader(self._events_fd)
            self._connections.close()
            self._socket.close()

    def _has_message(self) -> bool:
        """True if something waits; cheaper than to find out by an exception."""
        return int(self._socket.getsockopt(_EVENTS)) & _POLLIN != 0

    def _glance(self) -> None:
        """Look at the connections when it is time, or when the process grows."""
        now = self._loop.time()
        if self._connections.is_look_due(since=now - self._looked_at):
            self._looked_at = now
            self._watch()
        beat = round(now / GLANCE_SECONDS) + 1  # all sockets of a loop wake it together
        self._timer = self._loop.call_at(beat * GLANCE_SECONDS, self._glance)

    def _watch(self) -> None:
        """See to it that nobody fills our memory with messages that have no end."""
        has_message = self._has_message()
        if has_message:
            self._look_again()  # to ask may swallow the signal that something has arrived
        is_behind = has_message or self._was_paused
        self._was_paused = self._is_paused
        self._connections.look(messages_ahead=RECEIVED_AHEAD if is_behind else 0)

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
            if self._is_discarding and not self._has_discarded():
                self._look_again()
                break
            frames = self._next_message()
            size += sum(map(len, frames))
            batch.append(frames)
        if batch:
            self._receive(batch)

    def _next_message(self) -> list[bytes]:
        """Take the next message, or what may be taken of it."""
        receive = self._socket.recv
        frame = receive(_NOBLOCK, copy=False)
        frames: list[bytes] = [self._sender(frame)]
        if frames[0] not in self._connections.heard_peers:
            self._connections.heard(frames[0], frame)
        while frame.more:  # a frame knows it; to ask the socket takes longer
            if len(frames) >= FRAMES_AT_MOST:
                self._is_discarding = True
                break
            frame = receive(_NOBLOCK, copy=False)
            frames.append(frame.bytes)
        return frames

    def _sender(self, first: zmq.Frame) -> bytes:
        if self._peers is None:
            return first.bytes
        peer = Peer.of(first)
        self._peers.heard(peer)
        return peer

    def _has_discarded(self) -> bool:
        """Throw away more of a message that has too many frames; True if that was the last."""
        for _ in range(FRAMES_AT_ONCE):
            if not self._socket.getsockopt(_RCVMORE):
                self._is_discarding = False
                return True
            self._socket.recv(_NOBLOCK)
        return False


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


def bound_router(
    context: ZmqContext,
    address: str,
    receive: Receive,
    *,
    max_message_bytes: int,
    high_water_mark: int,
    max_connections: int = MAX_CONNECTIONS,
    curve: CurveListener | None = None,
) -> LoopSocket:
    """Listen at `address`. A send to a peer that is not there fails instead of vanishing.

    With `curve`, whoever connects has to show a key that the context's CurveGate knows.
    """
    socket = context.socket(zmq.ROUTER)
    connections = Connections(
        context, socket, most=max_connections, message_bytes=max_message_bytes
    )
    try:
        socket.linger = 0
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
        socket.setsockopt(zmq.SNDHWM, high_water_mark)
        socket.setsockopt(zmq.RCVHWM, RECEIVED_AHEAD)
        if curve is not None:
            listen_with(socket, curve.pair)
        socket.bind(address)
    except zmq.ZMQError:
        connections.close()
        socket.close()
        raise
    is_known = None if curve is None else curve.is_known
    return LoopSocket(socket, receive, connections, is_known=is_known)


def connected_dealer(
    context: ZmqContext,
    address: str,
    receive: Receive,
    *,
    identity: bytes,
    max_message_bytes: int,
    high_water_mark: int = 10_000,
    curve: CurvePair | None = None,
) -> LoopSocket:
    """Connect to `address`, now and again whenever the connection breaks."""
    socket = context.socket(zmq.DEALER)
    connections = Connections(context, socket, most=8, message_bytes=max_message_bytes)
    socket.linger = 0
    socket.setsockopt(zmq.IDENTITY, identity)
    socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    socket.set_hwm(high_water_mark)
    if curve is not None:
        connect_with(socket, curve)
    socket.connect(address)
    return LoopSocket(socket, receive, connections)


def _descriptor(socket: zmq.Socket[bytes]) -> int:
    descriptor = socket.getsockopt(zmq.FD)
    assert isinstance(descriptor, int)
    return descriptor
