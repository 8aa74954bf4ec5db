"""Between two processes: numbers that confirm, room that is granted, and what is sent again.

The sender keeps what it has sent until the receiver confirms its numbers, and sends no more than
the receiver has granted. Each envelope says which number came before it on this link: so a
receiver sees a gap, takes nothing behind it, and asks for what is missing. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.instructions import BUILT_IN, Instruction
from shunter.flow.runtime.inbox import Inbox
from shunter.model.retry import Retry, backoff

ENVELOPE_BYTES = 64 * 1024 * 1024
"""A batch with more bytes goes in several envelopes; an event alone may not have more."""

RESEND_SECONDS = 2.0
RESENDS = Retry(delay=RESEND_SECONDS, max_delay=30.0)


class LinkEnvelope(msgspec.Struct, frozen=True, array_like=True):
    """A batch of events, or one instruction. The events' bytes follow in a frame of their own.

    `after` is the number before it on this link; `kind` is the type of the events.
    """

    sender: str
    after: int
    first: int
    count: int
    kind: str = ""
    instruction: Instruction | None = None

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class LinkReceipt(msgspec.Struct, frozen=True, array_like=True):
    """What a receiver tells a sender: the highest number taken, and how many more it may send.

    `granted` counts from the beginning of the link. `is_gap`: something before is missing.
    """

    sender: str
    mark: int
    granted: int
    is_gap: bool = False


Sent = tuple[LinkEnvelope, bytes]


class Link:
    """The sender's side. What `send` is given is on its way; it may be lost."""

    def __init__(
        self,
        sender: str,
        granted: int,
        encode: Callable[[list[Any]], tuple[str, bytes]],
        send: Callable[[LinkEnvelope, bytes], None],
        *,
        mark: int = 0,
    ) -> None:
        self._sender, self._granted = sender, granted
        self._encode, self._send = encode, send
        self._mark = mark
        self._sent = 0
        self._unconfirmed: deque[Sent] = deque()
        self._heard_at: float | None = None
        self._misses = 0
        self._gap_at = -1
        self.resent = 0

    def room(self, _: str) -> int:
        return self._granted - self._sent

    def enqueue(self, _: str, first: int, events: Sequence[Any]) -> int:
        """Send what fits of these; what went before is counted as taken."""
        known = min(max(self._mark + 1 - first, 0), len(events))
        fresh = min(len(events) - known, self._granted - self._sent)
        if fresh <= 0:
            return known
        kind, body = self._encode(list(events[known : known + fresh]))
        while len(body) > ENVELOPE_BYTES:
            if fresh == 1:
                raise FlowError(
                    f"{self._sender!r} sends an event of {len(body):,} bytes; at most "
                    f"{ENVELOPE_BYTES:,} go to another engine, so store the data elsewhere and "
                    "send its address"
                )
            fresh = (fresh + 1) // 2
            kind, body = self._encode(list(events[known : known + fresh]))
        self._post(LinkEnvelope(self._sender, self._mark, first + known, fresh, kind), body)
        return known + fresh

    def instruct(self, _: str, number: int, instruction: Instruction) -> int:
        if number <= self._mark:
            return 1
        if self._sent >= self._granted:
            return 0
        self._post(LinkEnvelope(self._sender, self._mark, number, 1, "", instruction), b"")
        return 1

    def receive(self, receipt: LinkReceipt, *, now: float) -> None:
        """Heed what the receiver said."""
        self._granted = max(self._granted, receipt.granted)
        confirmed = False
        while self._unconfirmed and self._unconfirmed[0][0].last <= receipt.mark:
            self._unconfirmed.popleft()
            confirmed = True
        if confirmed:
            self._heard_at, self._misses = now, 0
        if receipt.is_gap and receipt.mark != self._gap_at:
            self._gap_at = receipt.mark
            self._resend()

    def tick(self, *, now: float) -> None:
        """Send again what was not confirmed for long."""
        if not self._unconfirmed or self._heard_at is None:
            self._heard_at = now
        elif now - self._heard_at >= backoff(RESENDS, self._misses + 1, jitter=0.0):
            self._heard_at = now
            self._misses += 1
            self._resend()

    @property
    def is_settled(self) -> bool:
        """True if all that was sent is confirmed."""
        return not self._unconfirmed

    def _post(self, envelope: LinkEnvelope, body: bytes) -> None:
        self._mark = envelope.last
        self._sent += envelope.count
        self._unconfirmed.append((envelope, body))
        self._send(envelope, body)

    def _resend(self) -> None:
        self.resent += len(self._unconfirmed)
        for envelope, body in self._unconfirmed:
            self._send(envelope, body)


class LinkEnd:
    """The receiver's side: of all links to one inbox. `instructions` are the flow's own."""

    def __init__(
        self,
        inbox: Inbox,
        decode: Callable[[str, bytes], list[Any]],
        instructions: Collection[str] = (),
    ) -> None:
        self._inbox, self._decode = inbox, decode
        self._known = BUILT_IN.union(instructions)
        self._received: Counter[str] = Counter()
        self._told: dict[str, LinkReceipt] = {}

    def take(self, envelope: LinkEnvelope, body: bytes) -> LinkReceipt | None:
        """Take what is new of an envelope; return what to say at once where something is missing.

        Raises FlowError where it makes no sense; then nothing of it was taken.
        """
        sender = envelope.sender
        mark = self._inbox.mark(sender)
        if envelope.after > mark:
            return self._receipt(sender, is_gap=True)
        if envelope.instruction is not None:
            if envelope.instruction.name not in self._known:
                raise FlowError(
                    f"{sender!r} sent the instruction {envelope.instruction.name!r}, which nobody "
                    "here knows; name it in Flow(instructions=...)"
                )
            self._inbox.instruct(sender, envelope.first, envelope.instruction)
        else:
            events = self._decode(envelope.kind, body)
            if len(events) != envelope.count:
                raise FlowError(
                    f"{sender!r} announced {envelope.count} events and sent {len(events)}"
                )
            self._inbox.enqueue(sender, envelope.first, events)
        self._received[sender] += max(self._inbox.mark(sender) - max(mark, envelope.first - 1), 0)
        self._told.pop(sender, None)
        return None

    def news_for(self, sender: str) -> LinkReceipt | None:
        """Return what a sender was not told yet."""
        receipt = self._receipt(sender)
        if self._told.get(sender) == receipt:
            return None
        self._told[sender] = receipt
        return receipt

    def _receipt(self, sender: str, *, is_gap: bool = False) -> LinkReceipt:
        granted = self._received[sender] + self._inbox.room(sender)
        return LinkReceipt(sender, self._inbox.mark(sender), granted, is_gap)
