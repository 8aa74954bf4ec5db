"""Large messages in parts: offered first, sent as the receiver grants, a window at a time.

What is small on the same connection (heartbeats, their answers) never waits behind more than one
window of bytes, each part is a sign of life, and the receiver's memory is a budget of bytes that
is granted before a byte is sent. A sender has one message on its way to a peer; a receiver has
one from each peer. Connections may break, and messages may be lost or repeated: an offer that is
made again is answered with how much has arrived, and the sender goes on from there.
Pure: time is an argument, and what is to be sent is returned. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import TypeAlias

from msgspec import Struct

from shunter.wire.messages import Decline, Grant, Kind, Message, Offer, Part

WHOLE_BYTES = 256 * 1024
"""A message of up to so many bytes is sent as it is."""

PART_BYTES = 64 * 1024
WINDOW_BYTES = 256 * 1024
"""How much may be on its way: what a heartbeat waits for, 2.6 s at 100 kB/s."""

FLOOR_BYTES_PER_SECOND = 100_000
"""The slowest link that is waited for."""

ASK_AGAIN_SECONDS = 3.0
STALLED_SECONDS = 20.0
"""A message of which nothing has come for so long is dropped, and its memory is given back."""

SLOWEST_BYTES_PER_SECOND = 20_000
GRACE_SECONDS = 30.0
"""A message is dropped that takes longer than this, and its size at that speed, as a whole."""

DRAINED_BYTES_PER_SECOND = 20_000_000
"""How fast a receiver is believed to work off what it has, when it says when to come back."""

FIRST_RETURN_SECONDS = 0.5
LAST_RETURN_SECONDS = 30.0
MAX_WAITING = 10_000
MAX_REMEMBERED = 10_000


class Say(Struct, frozen=True):
    """Send this message to the peer."""

    peer: bytes
    kind: Kind
    body: Message


class SayWhole(Struct, frozen=True):
    """Send these bytes to the peer: a small message that had to wait for its turn."""

    peer: bytes
    kind: Kind
    body: bytes


class Delivered(Struct, frozen=True):
    """The peer has all of the message."""

    peer: bytes
    key: Hashable


class Undelivered(Struct, frozen=True):
    """The peer does not take the message."""

    peer: bytes
    key: Hashable
    reason: str


class Arrived(Struct, frozen=True):
    """A whole message is here. Its size stays reserved until the shell releases it."""

    peer: bytes
    kind: Kind
    body: bytes | bytearray


SenderEffect: TypeAlias = Say | SayWhole | Delivered | Undelivered
ReceiverEffect: TypeAlias = Say | Arrived


class ByteBudget:
    """So many bytes, for all peers together. One message is let in whatever its size."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> bool:
        """Reserve bytes; False if there is no room for them now."""
        if self.used and self.used + size > self.limit:
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0


# ---- sending


class _Outgoing:
    __slots__ = ("body", "key", "kind", "number", "received", "sent")

    def __init__(self, number: int, kind: Kind, body: bytes, key: Hashable) -> None:
        self.number, self.kind, self.body, self.key = number, kind, body, key
        self.sent = 0
        self.received = 0


class PartSender:
    """All that goes to one peer in parts, in order, one message at a time.

    With `give_up_after` a peer that does not answer for so long loses all that waits for it;
    without, its messages are offered again for ever.
    """

    def __init__(
        self, peer: bytes = b"", *, first: int = 1, give_up_after: float | None = None
    ) -> None:
        self._peer = peer
        self.next_number = first
        self._give_up_after = give_up_after
        self._queue: deque[_Outgoing] = deque()
        self._asked_at = 0.0
        self._is_asking = False
        self._return_at: float | None = None
        self.heard_at = 0.0
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def __contains__(self, key: Hashable) -> bool:
        return any(waiting.key == key for waiting in self._queue)

    @property
    def unacknowledged(self) -> int:
        """How many bytes are on their way, as far as is known here."""
        return self._queue[0].sent - self._queue[0].received if self._queue else 0

    @property
    def quiet_until(self) -> float:
        """Until when the peer has said not to be asked; 0 if it has not."""
        return self._return_at or 0.0

    def keys(self) -> Iterator[Hashable]:
        return (waiting.key for waiting in self._queue)

    def put(
        self, kind: Kind, body: bytes, *, now: float, key: Hashable = None
    ) -> list[SenderEffect]:
        """Send a message, after those that are on their way already."""
        self._queue.append(_Outgoing(self.next_number, kind, body, key))
        self.next_number += 1
        self.size += len(body)
        return self._begin(now) if len(self._queue) == 1 else []

    def granted(self, grant: Grant, *, now: float) -> list[SenderEffect]:
        """Send as much as the peer has room for, from where it is if it was asked."""
        head = self._queue[0] if self._queue else None
        size = len(head.body) if head else 0
        if head is None or head.number != grant.number or not 0 <= grant.received <= size:
            return []
        self.heard_at, self._return_at = now, None
        if grant.received == size:
            self._drop_head()
            return [Delivered(self._peer, head.key), *self._begin(now)]
        if self._is_asking or grant.received > head.sent:
            head.sent = grant.received
            self._is_asking = False
        head.received = min(grant.received, head.sent)
        upto = min(grant.upto, size, head.received + 4 * WINDOW_BYTES)
        effects: list[SenderEffect] = []
        while head.sent < upto:
            data = head.body[head.sent : min(head.sent + PART_BYTES, upto)]
            effects.append(Say(self._peer, Kind.PART, Part(head.number, head.sent, data)))
            head.sent += len(data)
        return effects

    def declined(self, decline: Decline, *, now: float) -> list[SenderEffect]:
        """Come back later, or give the message up if it is never taken."""
        head = self._queue[0] if self._queue else None
        if head is None or head.number != decline.number:
            return []
        self.heard_at = now
        if decline.retry_after is not None:
            self._return_at = now + max(0.0, min(decline.retry_after, LAST_RETURN_SECONDS))
            return []
        self._drop_head()
        return [Undelivered(self._peer, head.key, decline.reason), *self._begin(now)]

    def tick(self, *, now: float) -> list[SenderEffect]:
        """Offer again what the peer says nothing about."""
        if not self._queue:
            return []
        if self._return_at is not None:
            return self._offer(now) if now >= self._return_at else []
        silent_for = now - max(self.heard_at, self._asked_at)
        patience = ASK_AGAIN_SECONDS + self.unacknowledged / FLOOR_BYTES_PER_SECOND
        if self._give_up_after is not None and now - self.heard_at >= (
            self._give_up_after + self.unacknowledged / FLOOR_BYTES_PER_SECOND
        ):
            return self.give_up("the peer does not answer")
        return self._offer(now) if silent_for >= patience else []

    def give_up(self, reason: str) -> list[SenderEffect]:
        """Drop everything."""
        dropped = [Undelivered(self._peer, waiting.key, reason) for waiting in self._queue]
        self._queue.clear()
        self.size = 0
        return list(dropped)

    def _begin(self, now: float) -> list[SenderEffect]:
        effects: list[SenderEffect] = []
        while self._queue and len(self._queue[0].body) <= WHOLE_BYTES:
            small = self._drop_head()
            effects += [
                SayWhole(self._peer, small.kind, small.body),
                Delivered(self._peer, small.key),
            ]
        if self._queue:
            self.heard_at, self._return_at = now, None
            effects += self._offer(now)
        return effects

    def _offer(self, now: float) -> list[SenderEffect]:
        head = self._queue[0]
        self._asked_at, self._is_asking, self._return_at = now, True, None
        return [Say(self._peer, Kind.OFFER, Offer(head.number, head.kind, len(head.body)))]

    def _drop_head(self) -> _Outgoing:
        head = self._queue.popleft()
        self.size -= len(head.body)
        self._is_asking = False
        return head


# ---- receiving


class _Incoming:
    __slots__ = ("body", "ends_by", "heard_at", "kind", "number", "received", "upto")

    def __init__(self, offer: Offer, now: float) -> None:
        self.number, self.kind = offer.number, offer.kind
        self.body = bytearray(offer.size)
        self.received = self.upto = 0
        self.heard_at = now
        self.ends_by = now + GRACE_SECONDS + offer.size / SLOWEST_BYTES_PER_SECOND


class _Waiting(Struct):
    offer: Offer
    until: float


class PartReceiver:
    """Messages in parts from any number of peers, within one budget.

    Who finds no room waits in a line, is told when to come back, and is granted its window by
    itself when its turn comes. `kinds` are those that may come in parts.
    """

    def __init__(self, budget: ByteBudget, *, max_bytes: int, kinds: frozenset[Kind]) -> None:
        self._budget = budget
        self._max_bytes = max_bytes
        self._kinds = kinds
        self._incoming: dict[bytes, _Incoming] = {}
        self._line: OrderedDict[bytes, _Waiting] = OrderedDict()
        self._waiting_bytes = 0
        self._done: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        """How many messages are on their way or wait to be."""
        return len(self._incoming) + len(self._line)

    def offered(self, peer: bytes, offer: Offer, *, now: float) -> list[ReceiverEffect]:
        """Grant a window, or say when to come back."""
        if reason := self._fault_in(offer):
            return [Say(peer, Kind.DECLINE, Decline(offer.number, reason))]
        if self._done.get(peer) == offer.number:
            return [Say(peer, Kind.GRANT, Grant(offer.number, offer.size, offer.size))]
        current = self._incoming.get(peer)
        if current is not None:
            if (current.number, len(current.body)) == (offer.number, offer.size):
                current.heard_at = now
                return [self._grant(peer, current)]
            self._drop(peer)
        self._put_in_line(peer, offer, now)
        effects = self.admit(now=now)
        if peer not in self._incoming:
            effects.append(self._put_off(peer, offer))
        return effects

    def admit(self, *, now: float) -> list[ReceiverEffect]:
        """Grant a window to those in line for whom there is room by now."""
        effects: list[ReceiverEffect] = []
        while self._line:
            peer, waiting = next(iter(self._line.items()))
            if waiting.until < now:
                self._leave_line(peer)
                continue
            if not self._budget.take(waiting.offer.size):
                break
            self._leave_line(peer)
            self._incoming[peer] = _Incoming(waiting.offer, now)
            effects.append(self._grant(peer, self._incoming[peer]))
        return effects

    def took(self, peer: bytes, part: Part, *, now: float) -> list[ReceiverEffect]:
        """Put a part in its place. One that was there before, or comes too early, is dropped."""
        current = self._incoming.get(peer)
        if current is None or current.number != part.number or part.offset != current.received:
            return []
        end = part.offset + len(part.data)
        if not part.data or end > current.upto:
            return []
        current.body[part.offset : end] = part.data
        current.received, current.heard_at = end, now
        if end < len(current.body):
            is_due = current.upto - end <= WINDOW_BYTES // 2 and current.upto < len(current.body)
            return [self._grant(peer, current)] if is_due else []
        del self._incoming[peer]
        self._done[peer] = current.number
        self._done.move_to_end(peer)
        if len(self._done) > MAX_REMEMBERED:
            self._done.popitem(last=False)
        return [
            Say(peer, Kind.GRANT, Grant(current.number, end, end)),
            Arrived(peer, current.kind, current.body),
        ]

    def tick(self, *, now: float) -> list[ReceiverEffect]:
        """Drop what has stalled or takes too long, and let others in."""
        for peer, current in list(self._incoming.items()):
            if now - current.heard_at >= STALLED_SECONDS or now >= current.ends_by:
                self._drop(peer)
        for peer, waiting in list(self._line.items()):
            if waiting.until < now:
                self._leave_line(peer)
        return self.admit(now=now)

    def _fault_in(self, offer: Offer) -> str:
        if offer.kind not in self._kinds:
            return f"{offer.kind} is not taken in parts"
        if not 0 < offer.size <= self._max_bytes:
            return f"{offer.size:,} bytes; at most {self._max_bytes:,} are accepted"
        return ""

    def _grant(self, peer: bytes, current: _Incoming) -> Say:
        current.upto = min(len(current.body), current.received + WINDOW_BYTES)
        return Say(peer, Kind.GRANT, Grant(current.number, current.received, current.upto))

    def _put_in_line(self, peer: bytes, offer: Offer, now: float) -> None:
        """Keep a place in line for this peer's offer; the same one keeps its own."""
        known = self._line.get(peer)
        until = now + LAST_RETURN_SECONDS + GRACE_SECONDS
        if known is not None and known.offer == offer:
            known.until = until
            return
        if known is not None:
            self._leave_line(peer)
        if len(self._line) < MAX_WAITING:
            self._line[peer] = _Waiting(offer, until)
            self._waiting_bytes += offer.size

    def _leave_line(self, peer: bytes) -> None:
        self._waiting_bytes -= self._line.pop(peer).offer.size

    def _put_off(self, peer: bytes, offer: Offer) -> Say:
        ahead = self._budget.used + self._waiting_bytes
        seconds = ahead / DRAINED_BYTES_PER_SECOND
        seconds = max(FIRST_RETURN_SECONDS, min(seconds, LAST_RETURN_SECONDS))
        reason = f"busy with {self._budget.used:,} bytes; come back in {seconds:.1f} s"
        return Say(peer, Kind.DECLINE, Decline(offer.number, reason, seconds))

    def _drop(self, peer: bytes) -> None:
        self._budget.release(len(self._incoming.pop(peer).body))
