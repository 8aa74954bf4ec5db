"""Whose question is answered next: peers take turns, however many questions each has put.

Each peer has a line of its own, bounded in number and bytes, and all lines together are bounded
too. When they are full, whoever has nothing in line yet takes the place of the last question of
the peer with the most bytes. Pure. Spec: docs/spec/ping-pong.md, section 9.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class QueueBounds(Struct, frozen=True):
    """How much may wait, for one peer and for all."""

    peer_count: int
    peer_bytes: int
    count: int
    bytes: int


class FairQueue(Generic[T]):
    """Items in line by peer; `take` goes round the peers."""

    def __init__(self, bounds: QueueBounds) -> None:
        self._bounds = bounds
        self._lines: OrderedDict[bytes, _Line[T]] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def put(self, peer: bytes, item: T, size: int) -> list[tuple[bytes, T]]:
        """Put an item in line; return what has no place any more, maybe this one."""
        bounds, line = self._bounds, self._lines.get(peer)
        if line is not None and (
            len(line.items) >= bounds.peer_count or line.bytes + size > bounds.peer_bytes
        ):
            return [(peer, item)]
        displaced: list[tuple[bytes, T]] = []
        while self._count >= bounds.count or (self._count and self._bytes + size > bounds.bytes):
            longest = max(self._lines, key=lambda name: self._lines[name].bytes)
            if line is not None or len(self._lines[longest].items) < 2:
                return [*displaced, (peer, item)]
            displaced.append((longest, self._pop(longest, last=True)))
        if line is None:
            line = self._lines[peer] = _Line()
        line.items.append((item, size))
        line.bytes += size
        self._count += 1
        self._bytes += size
        return displaced

    def take(self) -> tuple[bytes, T] | None:
        """Return the next item and whose it is; that peer's next turn comes after all others'."""
        if not self._lines:
            return None
        peer = next(iter(self._lines))
        self._lines.move_to_end(peer)
        return peer, self._pop(peer)

    def _pop(self, peer: bytes, *, last: bool = False) -> T:
        line = self._lines[peer]
        item, size = line.items.pop() if last else line.items.popleft()
        line.bytes -= size
        self._count -= 1
        self._bytes -= size
        if not line.items:
            del self._lines[peer]
        return item


class _Line(Generic[T]):
    def __init__(self) -> None:
        self.items: deque[tuple[T, int]] = deque()
        self.bytes = 0
