"""Large messages on one socket, to and from all its peers: the shell around `wire.parts`.

It puts the two machines between a socket and whoever uses it, and gives them the clock. Who uses
it sends with `send`, passes what arrives through `take`, and calls `tick` now and then.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Hashable, Iterator, Sequence

from shunter.wire.frames import DELIMITER, full
from shunter.wire.messages import Decline, Grant, Kind, Offer, Part, decode
from shunter.wire.parts import (
    WHOLE_BYTES,
    Arrived,
    ByteBudget,
    Delivered,
    PartReceiver,
    PartSender,
    ReceiverEffect,
    Say,
    SayWhole,
    SenderEffect,
    Undelivered,
)

PART_KINDS = frozenset({Kind.OFFER, Kind.GRANT, Kind.DECLINE, Kind.PART})

Body = bytes | bytearray
Release = Callable[[], None]
Receive = Callable[[bytes, Kind, Body, Release], None]


def _nothing(*_: object) -> None:
    """Nobody wants to know."""


class PartedMessages:
    """Messages in parts over one socket. A DEALER has one peer, whose name is empty.

    `receive` gets each message with a function to call when its memory is free again. What waits
    to be sent is bounded by `outgoing_bytes`, if that is given.
    """

    def __init__(
        self,
        send: Callable[[bytes, Sequence[bytes]], bool],
        receive: Receive,
        *,
        budget: ByteBudget,
        max_bytes: int,
        kinds: frozenset[Kind],
        outgoing_bytes: int | None = None,
        give_up_after: float | None = None,
        on_delivered: Callable[[bytes, Hashable], None] = _nothing,
        on_undelivered: Callable[[bytes, Hashable, str], None] = _nothing,
    ) -> None:
        self._send = send
        self._receive = receive
        self._budget = budget
        self._receiver = PartReceiver(budget, max_bytes=max_bytes, kinds=kinds)
        self._outgoing_bytes = outgoing_bytes
        self._give_up_after = give_up_after
        # Both sides forget at different times, so no two runs of ours may share numbers.
        self._first = secrets.randbits(48)
        self._on_delivered = on_delivered
        self._on_undelivered = on_undelivered
        self._senders: dict[bytes, PartSender] = {}

    @property
    def is_clogged(self) -> bool:
        """True if as much waits to be sent as may."""
        limit = self._outgoing_bytes
        return limit is not None and self.outgoing_size >= limit

    @property
    def outgoing_size(self) -> int:
        return sum(sender.size for sender in self._senders.values())

    def sender(self, peer: bytes = b"") -> PartSender | None:
        """Return what is on its way to a peer, if anything is."""
        return self._senders.get(peer)

    def keys(self, peer: bytes) -> Iterator[Hashable]:
        """Yield the keys of the messages that are on their way to a peer."""
        return sender.keys() if (sender := self._senders.get(peer)) else iter(())

    def send(self, kind: Kind, body: bytes, *, peer: bytes = b"", key: Hashable = None) -> bool:
        """Send a message behind those that are on their way; False if too much waits already."""
        sender = self._senders.get(peer)
        if sender is None and len(body) <= WHOLE_BYTES:
            return self._send(peer, [DELIMITER, kind.value.encode(), body])
        if self.is_clogged:
            return False
        if sender is None:
            sender = PartSender(peer, first=self._first, give_up_after=self._give_up_after)
            self._senders[peer] = sender
        is_reached = self._perform(sender.put(kind, body, now=time.monotonic(), key=key))
        if not is_reached and self._give_up_after is not None:
            sender.give_up("the peer is gone")
            self._drop_idle(peer)
            return False
        return True

    def take(self, kind: Kind, body: Body, *, peer: bytes = b"") -> None:
        """Take a message that is about parts."""
        now = time.monotonic()
        match kind:
            case Kind.OFFER:
                self._perform(self._receiver.offered(peer, decode(body, Offer), now=now))
            case Kind.PART:
                self._perform(self._receiver.took(peer, decode(body, Part), now=now))
            case Kind.GRANT:
                grant = decode(body, Grant)
                if sender := self._senders.get(peer):
                    self._perform(sender.granted(grant, now=now))
            case Kind.DECLINE:
                decline = decode(body, Decline)
                if sender := self._senders.get(peer):
                    self._perform(sender.declined(decline, now=now))

    def tick(self) -> None:
        """Let time pass."""
        now = time.monotonic()
        for sender in list(self._senders.values()):
            self._perform(sender.tick(now=now))
        if len(self._receiver):
            self._perform(self._receiver.tick(now=now))

    def forget(self, peer: bytes, reason: str = "the peer is gone") -> None:
        """Give up what is on its way to a peer."""
        if sender := self._senders.get(peer):
            self._perform(sender.give_up(reason))

    def _perform(self, effects: Sequence[SenderEffect | ReceiverEffect]) -> bool:
        """Do what the machines say; False if a peer of a sender could not be reached."""
        is_reached = True
        for effect in effects:
            match effect:
                case Say(peer, kind, body):
                    is_reached = self._send(peer, full(kind, body)) and is_reached
                case SayWhole(peer, kind, body):
                    self._send(peer, [DELIMITER, kind.value.encode(), body])
                case Delivered(peer, key):
                    self._drop_idle(peer)
                    self._on_delivered(peer, key)
                case Undelivered(peer, key, reason):
                    self._drop_idle(peer)
                    self._on_undelivered(peer, key, reason)
                case Arrived(peer, kind, body):
                    self._receive(peer, kind, body, self._release_once(len(body)))
        return is_reached

    def _drop_idle(self, peer: bytes) -> None:
        sender = self._senders.get(peer)
        if sender is not None and not sender:
            self._first = max(self._first, sender.next_number)
            del self._senders[peer]

    def _release_once(self, size: int) -> Release:
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._budget.release(size)
                self._perform(self._receiver.admit(now=time.monotonic()))

        return release
