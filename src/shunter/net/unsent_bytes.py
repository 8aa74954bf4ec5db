"""How much of what was sent ZeroMQ still has in memory, for peers that read slowly or not at all.

ZeroMQ counts messages, whatever their size. Here bytes are counted, by peer and together, and
what is beyond is not sent. Spec: docs/spec/ping-pong.md, section 9.
"""

from __future__ import annotations

import zmq

TRACKED_BYTES = 16 * 1024
"""Frames of this size and above are counted until ZeroMQ has handed them to the system, and so is
a smaller one for all before it whenever these have as many bytes together."""

MESSAGE_BYTES = 256
"""What ZeroMQ needs for a message besides its bytes."""

UNSENT_BYTES_PER_PEER = 32 * 1024 * 1024
UNSENT_WHOLE_BYTES = 64 * 1024 * 1024
"""So much of them may wait for one peer; and so much for all, of those that came in one piece.
One always may: no peer waits because others don't read, unless it wants as much as they do."""

UNSENT_BYTES_TOGETHER = 256 * 1024 * 1024
"""So much may wait for all peers; beyond, only for those for whom nothing waits."""

KNOWN_PEERS = 16_384
"""For so many peers the small frames are counted."""

WHOLE_BYTES = 128 * 1024
"""Above this a frame is a large message in one piece, and neither a part nor many small ones."""


class UnsentBytes:
    """What ZeroMQ still keeps in memory, by the first frame of each message.

    Messages to a peer leave in their order, so a tracked one stands for the small ones before it.
    """

    def __init__(self) -> None:
        self._small: dict[bytes, int] = {}
        self._all = 0
        self._frames: list[tuple[zmq.MessageTracker, bytes, int]] = []
        self._sizes: dict[bytes, int] = {}
        self._whole = 0

    def due(self, peer: bytes, size: int) -> int:
        """Return how many bytes are to be tracked with a frame of this size; 0 for none yet."""
        together = self._small.get(peer, 0) + size + MESSAGE_BYTES
        if together >= TRACKED_BYTES:
            self._small.pop(peer, None)
            return together
        if len(self._small) >= KNOWN_PEERS:
            self._small.clear()
        self._small[peer] = together
        return 0

    def add(self, tracker: zmq.MessageTracker, peer: bytes, size: int) -> None:
        self._frames.append((tracker, peer, size))
        self._sizes[peer] = self._sizes.get(peer, 0) + size
        self._all += size
        self._whole += size if size > WHOLE_BYTES else 0

    def has_room(self, peer: bytes, size: int) -> bool:
        self._forget_sent()
        of_peer = self._sizes.get(peer, 0)
        if of_peer and of_peer + size > UNSENT_BYTES_PER_PEER:
            return False
        if of_peer and self._all + size > UNSENT_BYTES_TOGETHER:
            return False
        return size <= WHOLE_BYTES or not self._whole or self._whole + size <= UNSENT_WHOLE_BYTES

    def _forget_sent(self) -> None:
        kept = []
        for entry in self._frames:
            tracker, peer, size = entry
            if not tracker.done:
                kept.append(entry)
                continue
            self._all -= size
            self._whole -= size if size > WHOLE_BYTES else 0
            self._sizes[peer] -= size
            if not self._sizes[peer]:
                del self._sizes[peer]
        self._frames = kept
