"""The sockets of workers: an inbox that listens on TCP and IPC, and the way to one elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hmac import compare_digest
from typing import Any

import msgspec
import zmq

from shunter.errors import FlowError
from shunter.flow.runners.engines.links import (
    ENVELOPE_BYTES,
    Link,
    LinkEnd,
    LinkEnvelope,
    LinkReceipt,
)
from shunter.flow.runners.engines.network import InboxAddress, Way, ipc_endpoint
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.inbox import Inbox
from shunter.model.key import CurvePair
from shunter.net.connections import HANDSHAKE_MILLISECONDS, MAX_CONNECTIONS, Connections
from shunter.net.curve import connect_with, listen_with

MESSAGES_AT_ONCE = 64

MAX_INBOX_BYTES = ENVELOPE_BYTES + 1024 * 1024
MAX_RECEIPT_BYTES = 64 * 1024
"""How large a frame may be that comes to an inbox, and one that comes back."""

RECEIVED_AHEAD = 8
"""How many envelopes of one connection ZeroMQ reads before they are taken."""

FRAMES = 4
"""An envelope has the peer, the token, the header and the body."""

Context = zmq.Context[zmq.Socket[bytes]]
Complain = Callable[[str], None]
"""Called with what was wrong with a message that was refused."""

_NOBLOCK, _RCVMORE = int(zmq.NOBLOCK), int(zmq.RCVMORE)
_encode = msgspec.msgpack.Encoder().encode
_envelope = msgspec.msgpack.Decoder(LinkEnvelope)
_receipt = msgspec.msgpack.Decoder(LinkReceipt)


class InboxSocket:
    """The port at which other processes reach the inbox of one worker."""

    def __init__(
        self,
        context: Context,
        inbox: Inbox,
        codec: EventCodec,
        host: str,
        *,
        token: bytes,
        curve: CurvePair | None,
        instructions: Collection[str],
        complain: Complain,
    ) -> None:
        self._token, self._looked_at = token, 0.0
        self._end, self._complain = LinkEnd(inbox, codec.decode, instructions), complain
        self._peers: dict[str, bytes] = {}
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, RECEIVED_AHEAD)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_INBOX_BYTES)
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MILLISECONDS)
        self._connections = Connections(
            context, self.socket, most=MAX_CONNECTIONS, message_bytes=MAX_INBOX_BYTES
        )
        if curve is not None:
            listen_with(self.socket, curve)
        try:
            self.port = self.socket.bind_to_random_port(f"tcp://{host}")
            self.socket.bind(ipc_endpoint(host, self.port))
        except zmq.ZMQError as error:
            self.close()
            raise FlowError(f"an inbox can't listen at {host}: {error}") from error

    def receive(self) -> bool:
        """Take what has come; tell whether that was anything."""
        for at in range(MESSAGES_AT_ONCE):
            try:
                frames = self._next_message()
            except zmq.Again:
                return at > 0
            try:
                self._take(frames)
            except (FlowError, msgspec.DecodeError, ValueError, RecursionError) as error:
                self._complain(f"an envelope was refused: {error}")
        return True

    def look(self, *, now: float) -> None:
        """Cut off strangers that keep the connection open, or send messages without an end."""
        if self._connections.is_look_due(since=now - self._looked_at):
            self._looked_at = now
            self._connections.look(messages_ahead=RECEIVED_AHEAD)

    def close(self) -> None:
        self._connections.close()
        self.socket.close()

    def _next_message(self) -> list[bytes]:
        """Receive a message, and throw away what is too much of it."""
        first = self.socket.recv(_NOBLOCK, copy=False)
        frames = [first.bytes]
        self._connections.heard(frames[0], first)
        while self.socket.getsockopt(_RCVMORE):
            frame = self.socket.recv(_NOBLOCK)
            if len(frames) <= FRAMES:
                frames.append(frame)
        if len(frames) != FRAMES or not compare_digest(frames[1], self._token):
            self._connections.cut_off_sender(first)
        return frames

    def grant(self) -> None:
        """Tell senders how far their numbers have come, and what there is room for."""
        for sender, peer in self._peers.items():
            receipt = self._end.news_for(sender)
            if receipt is not None:
                self._reply(peer, receipt)

    def _take(self, frames: list[bytes]) -> None:
        peer, token, header, body = frames
        if not compare_digest(token, self._token):
            raise FlowError("it does not show the token of this run")
        envelope = _envelope.decode(header)
        gap = self._end.take(envelope, body)
        self._peers[envelope.sender] = peer
        if gap is not None:
            self._complain(
                f"{envelope.sender!r} sent number {envelope.first} behind {envelope.after}, but "
                f"only {gap.mark} has come; it is asked to send the rest again"
            )
            self._reply(peer, gap)

    def _reply(self, peer: bytes, receipt: LinkReceipt) -> None:
        self.socket.send_multipart([peer, _encode(receipt)])


class PeerSocket:
    """The way to an inbox in another process, shared by all senders here."""

    def __init__(
        self,
        context: Context,
        address: InboxAddress,
        way: Way,
        token: bytes,
        *,
        curve: CurvePair | None = None,
    ) -> None:
        self.way, self._token = way, token
        self._links: dict[str, Link] = {}
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_RECEIPT_BYTES)
        if curve is not None:
            connect_with(self.socket, curve)
        is_ipc = way is Way.IPC
        self.socket.connect(ipc_endpoint(address.host, address.port) if is_ipc else address.tcp)

    def link(self, sender: str, granted: int, codec: EventCodec, *, mark: int) -> Link:
        """Return the outbox of one sender."""
        link = self._links[sender] = Link(sender, granted, codec.encode, self._send, mark=mark)
        return link

    def receive(self, *, now: float) -> bool:
        """Heed what the receiver has said; tell whether that was anything."""
        for at in range(MESSAGES_AT_ONCE):
            try:
                message = self.socket.recv(_NOBLOCK)
            except zmq.Again:
                return at > 0
            receipt = _receipt.decode(message)
            self._links[receipt.sender].receive(receipt, now=now)
        return True

    def close(self) -> None:
        self.socket.close()

    def tick(self, *, now: float) -> None:
        for link in self._links.values():
            link.tick(now=now)

    @property
    def is_settled(self) -> bool:
        return all(link.is_settled for link in self._links.values())

    def _send(self, envelope: LinkEnvelope, body: bytes) -> None:
        frames: list[Any] = [self._token, _encode(envelope), body]
        self.socket.send_multipart(frames)
