"""Requests that arrive, over a network that loses, doubles, delays and reorders packets.

`Outgoing` is the asking side: a request is sent again, after growing gaps, until it is confirmed
or given up. `Incoming` is the answering side: it remembers what came and what was answered, so
that a packet that comes again is answered again and not done again. Each holds one half of a
promise: a request that was confirmed has been done, and as long as `Incoming` remembers it, it
has been done once.

How long is that? A sender of ours stops at RESENT_SECONDS after its first packet, and a packet
may wander for WANDERING_SECONDS; nothing can come again later than both together, which is
REMEMBERED_SECONDS. Foreign peers may resend for longer, so each repetition counts anew from when
it came. Only where memory runs out is something forgotten earlier, the oldest first.

A shell sends what it begins, reads all that has arrived before it lets time pass with `tick`, and
performs the effects. Pure: `now` is an argument, and so is the jitter of the gaps.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from enum import Enum
from heapq import heappop, heappush
from typing import Generic, TypeVar

from msgspec import Struct

from shunter.wire.udp.pace import PeerPace
from shunter.wire.udp.peers import Peer

T = TypeVar("T")

GROWTH = 1.5
LONGEST_GAP = 1.0
SHORTEST_LONGEST_GAP = 0.2
GAPS_TO_GIVE_UP = 32.0
"""A gap is at most this part of the time in which a request is given up, so that at three lost
packets in ten nearly every request is answered in its time."""
JITTER = 0.25
"""A gap is longer than it should be by up to this part of it, so that senders get out of step."""

RESENT_SECONDS = 60.0
"""No request is under way for longer."""
WANDERING_SECONDS = 30.0
"""No packet is in the network for longer."""
REMEMBERED_SECONDS = RESENT_SECONDS + WANDERING_SECONDS

MAX_EFFECTS = 1000
"""So many at a time, that a shell which was held up does not flood the network afterwards."""
MAX_PEERS = 10_000
"""Of so many peers it is known how soon they answer; of the rest it is learnt again."""


# ---- the asking side


class Resend(Struct, frozen=True, gc=False):
    """Send this packet once more."""

    peer: Peer
    transmission_id: int | str
    packet: bytes


class GaveUp(Struct, Generic[T], frozen=True):
    """Nobody confirmed the request in time; it may have been done all the same."""

    peer: Peer
    transmission_id: int | str
    about: T


class Transmission(Struct, Generic[T]):
    """One request under way; `about` is whatever its sender wants to have back with the answer."""

    peer: Peer
    transmission_id: int | str
    packet: bytes
    about: T
    began_at: float
    give_up_at: float
    gap: float
    longest_gap: float
    line: _Line[T]
    sends: int = 1
    is_over: bool = False
    has_deadline: bool = False
    """Its end is in the heap already, apart from its next resend."""


class _Line(Generic[T]):
    """All that is under way to one peer: its pace, and what is held back because of it."""

    __slots__ = ("held_back", "pace", "wakes_at")

    def __init__(self, now: float) -> None:
        self.pace = PeerPace(now=now)
        self.held_back: deque[Transmission[T]] = deque()
        self.wakes_at: float | None = None


class Outgoing(Generic[T]):
    """Requests that nobody has confirmed yet.

    Each waits in one heap for its next resend. What is confirmed leaves its place there behind, to
    be dropped when it comes to the front: nobody is woken for it. Where a peer has been sent as
    many resends as it may be, the others wait in line for their turn, but are given up in time.
    """

    def __init__(self, *, jitter: Callable[[], float], max_peers: int = MAX_PEERS) -> None:
        self._jitter = jitter
        self._max_peers = max_peers
        self._under_way: dict[tuple[Peer, int | str], Transmission[T]] = {}
        self._lines: OrderedDict[Peer, _Line[T]] = OrderedDict()
        self._due: list[tuple[float, int, Transmission[T] | _Line[T]]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def wakes_at(self) -> float | None:
        """When `tick` is worth calling next, at the earliest."""
        return self._due[0][0] if self._due else None

    def begin(
        self,
        peer: Peer,
        transmission_id: int | str,
        packet: bytes,
        about: T,
        *,
        now: float,
        give_up_after: float = RESENT_SECONDS,
    ) -> None:
        """Note a request that is being sent for the first time."""
        key = peer, transmission_id
        assert key not in self._under_way, f"transmission {transmission_id} is under way already"
        assert 0 < give_up_after <= RESENT_SECONDS, f"{give_up_after} s is not remembered so long"
        line = self._line(peer, now)
        longest = min(max(give_up_after / GAPS_TO_GIVE_UP, SHORTEST_LONGEST_GAP), LONGEST_GAP)
        begun = self._under_way[key] = Transmission(
            peer=peer,
            transmission_id=transmission_id,
            packet=packet,
            about=about,
            began_at=now,
            give_up_at=now + give_up_after,
            gap=min(line.pace.first_gap, longest),
            longest_gap=longest,
            line=line,
        )
        self._schedule(begun, now)

    def confirmed(
        self, peer: Peer, transmission_id: int | str, *, now: float
    ) -> Transmission[T] | None:
        """Note an answer; return what it answers, or None where nobody waits for it."""
        ended = self._end(peer, transmission_id)
        if ended is not None:
            line = ended.line
            line.pace.answered(now - ended.began_at, sends=ended.sends, now=now)
            if line.held_back:
                self._wake(line, now)
        return ended

    def is_under_way(self, peer: Peer, transmission_id: int | str) -> bool:
        """True if an answer is waited for."""
        return (peer, transmission_id) in self._under_way

    def forget(self, peer: Peer, transmission_id: int | str) -> None:
        """Stop resending: the answer is of no use any more."""
        self._end(peer, transmission_id)

    def under_way_to(self, peer: Peer) -> list[Resend]:
        """Return all that waits for an answer of this peer, to be sent once more out of turn."""
        return [
            Resend(peer, waiting.transmission_id, waiting.packet)
            for waiting in self._under_way.values()
            if waiting.peer == peer
        ]

    def tick(self, *, now: float, most: int = MAX_EFFECTS) -> list[Resend | GaveUp[T]]:
        """Return what is due, at most so much of it; the rest stays due."""
        effects: list[Resend | GaveUp[T]] = []
        while self._due and self._due[0][0] <= now and len(effects) < most:
            moment, _, due = heappop(self._due)
            if isinstance(due, _Line):
                if due.wakes_at == moment:
                    self._go_on(due, effects, now=now, most=most)
            elif due.is_over:
                continue
            elif now >= due.give_up_at:
                self.forget(due.peer, due.transmission_id)
                effects.append(GaveUp(due.peer, due.transmission_id, due.about))
            elif due.line.held_back or not due.line.pace.may_resend(now=now):
                self._hold_back(due, now)
            else:
                effects.append(self._resent(due, now))
        return effects

    def _line(self, peer: Peer, now: float) -> _Line[T]:
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = _Line(now)
            if len(self._lines) > self._max_peers:
                self._lines.popitem(last=False)  # what is under way there keeps it
        self._lines.move_to_end(peer)
        return line

    def _end(self, peer: Peer, transmission_id: int | str) -> Transmission[T] | None:
        ended = self._under_way.pop((peer, transmission_id), None)
        if ended is not None:
            ended.is_over = True
            due = self._due
            while due and isinstance(first := due[0][2], Transmission) and first.is_over:
                heappop(due)
        return ended

    def _resent(self, due: Transmission[T], now: float) -> Resend:
        due.sends += 1
        due.gap = min(due.gap * GROWTH, due.longest_gap)
        self._schedule(due, now)
        return Resend(due.peer, due.transmission_id, due.packet)

    def _schedule(self, sent: Transmission[T], now: float) -> None:
        self._push(min(now + sent.gap * (1 + JITTER * self._jitter()), sent.give_up_at), sent)

    def _hold_back(self, due: Transmission[T], now: float) -> None:
        """Let a request wait in its peer's line, from where it is given up in time."""
        due.line.held_back.append(due)
        if not due.has_deadline:
            due.has_deadline = True
            self._push(due.give_up_at, due)
        if due.line.wakes_at is None:
            self._wake(due.line, due.line.pace.next_resend_at(now=now))

    def _wake(self, line: _Line[T], moment: float) -> None:
        if line.wakes_at is None or moment < line.wakes_at:
            line.wakes_at = moment
            self._push(moment, line)

    def _go_on(
        self, line: _Line[T], effects: list[Resend | GaveUp[T]], *, now: float, most: int
    ) -> None:
        """Send what was held back, as much of it as the peer may be sent now."""
        line.wakes_at = None
        held_back = line.held_back
        while held_back and len(effects) < most:
            if held_back[0].is_over:
                held_back.popleft()
            elif line.pace.may_resend(now=now):
                effects.append(self._resent(held_back.popleft(), now))
            else:
                break
        if held_back:
            self._wake(line, line.pace.next_resend_at(now=now))

    def _push(self, moment: float, due: Transmission[T] | _Line[T]) -> None:
        self._pushed += 1
        heappush(self._due, (moment, self._pushed, due))


# ---- the answering side

ENTRY_BYTES = 350
"""What it costs to remember a packet, besides its answer; measured and rounded up."""
PEER_BYTES = 700
"""What it costs to remember a peer; likewise."""
MAX_BYTES = 256 * 1024 * 1024
MAX_BYTES_PER_PEER = 64 * 1024 * 1024
FORGOTTEN_AT_ONCE = 16
OVERDUE_SECONDS = 2.0
"""What takes longer may have come to nothing: a commit takes a part of that."""


class Heard(Enum):
    """What a packet is that has not been answered yet."""

    NEW = "do it, then call `answered`"
    UNDER_WAY = "it is being done; the answer goes out when it is"
    OVERDUE = "it should have been done by now; where that does no harm, do it again"


class _Entry(Struct, gc=False):
    heard_at: float
    begun_at: float
    answer: bytes | None = None


class _Memory:
    """What one peer sent; what was heard longest ago comes first."""

    __slots__ = ("entries", "heard_at", "kept_since", "size")

    def __init__(self) -> None:
        self.entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self.heard_at = 0.0
        self.kept_since = 0.0
        """Nothing here was last heard before then."""
        self.size = PEER_BYTES

    def is_old(self, since: float) -> bool:
        """True if some of it was last heard before then; most of the time at a glance."""
        if self.kept_since <= since:
            self.kept_since = next(iter(self.entries.values())).heard_at
        return self.kept_since <= since


class Incoming:
    """What came in, and what was answered, of each peer.

    A key stands for a packet and its resends (`Command.key`). Peers are in the order in which they
    were last heard, so where space runs out the memory of a silent one goes first, and a loud one
    can't have more than its part.
    """

    def __init__(
        self,
        *,
        remembered: float = REMEMBERED_SECONDS,
        max_bytes: int = MAX_BYTES,
        max_bytes_per_peer: int = MAX_BYTES_PER_PEER,
    ) -> None:
        self._remembered = remembered
        self._max_bytes, self._max_bytes_per_peer = max_bytes, max_bytes_per_peer
        self._peers: OrderedDict[Hashable, _Memory] = OrderedDict()
        self._size = self._count = 0
        self._kept_since = 0.0
        """No peer was last heard before then."""

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """How many bytes this takes, about."""
        return self._size

    def received(self, peer: Hashable, key: Hashable, *, now: float) -> Heard | bytes:
        """Note a packet; where it was answered already, return the answer, to be sent again."""
        memory = self._heard(peer, now)
        known = memory.entries.get(key)
        if known is None:
            self._add(memory, key, now)
            if memory.size > self._max_bytes_per_peer or self._size > self._max_bytes:
                self._keep_within_bounds(memory)
            return Heard.NEW
        known.heard_at = now
        memory.entries.move_to_end(key)
        if known.answer is not None:
            return known.answer
        if now - known.begun_at < OVERDUE_SECONDS:
            return Heard.UNDER_WAY
        known.begun_at = now
        return Heard.OVERDUE

    def answered(self, peer: Hashable, key: Hashable, answer: bytes, *, now: float) -> None:
        """Note that a packet is done, and its answer; b"" where it wants none."""
        memory = self._peers.get(peer)
        known = None if memory is None else memory.entries.get(key)
        if memory is None or known is None:
            memory = self._heard(peer, now)
            known = self._add(memory, key, now)
        growth = len(answer) - len(known.answer or b"")
        memory.size += growth
        self._size += growth
        known.answer = answer
        if memory.size > self._max_bytes_per_peer or self._size > self._max_bytes:
            self._keep_within_bounds(memory)

    def forget(self, peer: Hashable, key: Hashable) -> None:
        """Take a packet as never heard: it could not be done, and its resend shall be."""
        memory = self._peers.get(peer)
        if memory is not None and key in memory.entries:
            memory.entries.move_to_end(key, last=False)
            self._drop_oldest(peer, memory)

    def tick(self, *, now: float, most: int = MAX_EFFECTS) -> None:
        """Forget, some at a time, what was sent by peers who have been silent for long."""
        since = now - self._remembered
        while most and self._peers:
            peer, memory = next(iter(self._peers.items()))
            self._kept_since = memory.heard_at
            if memory.heard_at > since:
                return
            self._drop_oldest(peer, memory)
            most -= 1

    def _heard(self, peer: Hashable, now: float) -> _Memory:
        """Return the memory of a peer that has just been heard, lighter by what is too old."""
        since = now - self._remembered
        if self._kept_since <= since:
            self.tick(now=now, most=FORGOTTEN_AT_ONCE)
        memory = self._peers.get(peer)
        if memory is not None and memory.is_old(since):
            memory = self._faded(peer, memory, since)
        if memory is None:
            memory = self._peers[peer] = _Memory()
            self._size += PEER_BYTES
        self._peers.move_to_end(peer)
        memory.heard_at = now
        return memory

    def _faded(self, peer: Hashable, memory: _Memory, since: float) -> _Memory | None:
        """Drop some of what a peer sent too long ago; None where nothing is left of it."""
        for _ in range(FORGOTTEN_AT_ONCE):
            self._drop_oldest(peer, memory)
            if not memory.entries:
                return None
            if not memory.is_old(since):
                break
        return memory

    def _add(self, memory: _Memory, key: Hashable, now: float) -> _Entry:
        added = memory.entries[key] = _Entry(now, now)
        memory.size += ENTRY_BYTES
        self._size += ENTRY_BYTES
        self._count += 1
        return added

    def _drop_oldest(self, peer: Hashable, memory: _Memory) -> None:
        _, dropped = memory.entries.popitem(last=False)
        freed = ENTRY_BYTES + len(dropped.answer or b"")
        memory.size -= freed
        self._size -= freed
        self._count -= 1
        if not memory.entries:
            del self._peers[peer]
            self._size -= PEER_BYTES

    def _keep_within_bounds(self, memory: _Memory) -> None:
        """Drop the oldest of the peer just heard, and of those heard longest ago; but never all."""
        while memory.size > self._max_bytes_per_peer and len(memory.entries) > 1:
            self._drop_oldest(None, memory)
        while self._size > self._max_bytes and self._count > 1:
            peer, oldest = next(iter(self._peers.items()))
            self._drop_oldest(peer, oldest)
