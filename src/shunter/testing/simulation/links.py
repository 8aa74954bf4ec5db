"""The wires between simulated processes: how long a message takes, and what gets stuck.

A `Wire` is one direction between two processes, with its faults. A `Channel` is one direction of
one connection over it: messages arrive in order or not at all, as TCP has it. While a wire is cut
they get stuck, and go on when it heals, unless the connection was closed meanwhile.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from zlib import crc32

from shunter.testing.simulation.loop import VirtualTime

Frames = Sequence[bytes]

RETRANSMISSION_SECONDS = 0.4
"""How long at most it takes until the system sends again what was stuck."""


class Wire:
    """One direction between two processes, for all their connections."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.extra_latency = 0.0
        self.bytes_per_second: float | None = None
        self.lost = self.duplicated = self.late = 0.0
        """Which part of the datagrams is lost, arrives twice, or comes out of order."""
        self.dropped_at = -math.inf
        """When a datagram was last lost."""
        self.loses_answers = 0
        """How many faults there are that break connections over which an answer is to go."""
        self.cuts = 0
        self.stuck: list[Channel] = []


class Wires:
    """All wires, made when they are first used."""

    def __init__(self, time: VirtualTime, random: Random) -> None:
        self.time = time
        self.random = random
        self.digest = 0
        """A checksum of everything that has arrived: two runs with the same one are the same."""
        self.has_late_packets = False
        """Whether a closed connection still delivers, after a cut, what was stuck on it."""
        self._wires: dict[tuple[str, str], Wire] = {}

    def between(self, source: str, target: str) -> Wire:
        wire = self._wires.get((source, target))
        if wire is None:
            wire = Wire(latency=0.0002 + 0.002 * self.random.random())
            self._wires[source, target] = wire
        return wire

    def last_drop(self, source: str) -> float:
        """Return when a datagram of this process was last lost."""
        mine = (wire.dropped_at for (name, _), wire in self._wires.items() if name == source)
        return max(mine, default=-math.inf)

    def is_open(self, one: str, other: str) -> bool:
        """True if messages get through both ways."""
        return not self.between(one, other).cuts and not self.between(other, one).cuts

    def cut(self, source: str, target: str) -> None:
        self.between(source, target).cuts += 1

    def heal(self, source: str, target: str) -> None:
        wire = self.between(source, target)
        wire.cuts -= 1
        if wire.cuts == 0:
            stuck, wire.stuck = wire.stuck, []
            for lane in stuck:
                pause = RETRANSMISSION_SECONDS * self.random.random()
                self.time.at(self.time.now + pause, lane.arrive)

    def arrived(self, frames: Frames) -> None:
        for frame in frames:
            self.digest = crc32(frame, self.digest)


class Channel:
    """One direction of one connection. None among its messages is the end of it."""

    def __init__(
        self, wires: Wires, wire: Wire, deliver: Callable[[Frames], None], end: Callable[[], None]
    ) -> None:
        self._wires, self._wire = wires, wire
        self._deliver, self._end = deliver, end
        self._queue: deque[tuple[float, Frames | None]] = deque()
        self._free_at = 0.0
        self._last_at = 0.0
        self._is_dead = False

    def __len__(self) -> int:
        return len(self._queue)

    def send(self, frames: Frames | None) -> None:
        if self._is_dead:
            return
        wire, now = self._wire, self._wires.time.now
        free_at = max(now, self._free_at)
        if wire.bytes_per_second is not None and frames is not None:
            free_at += sum(map(len, frames)) / wire.bytes_per_second
        self._free_at = free_at
        arrives_at = free_at + wire.latency + wire.extra_latency
        self._last_at = arrives_at = max(arrives_at, self._last_at)
        self._queue.append((arrives_at, frames))
        if len(self._queue) == 1:
            self._wires.time.at(arrives_at, self.arrive)

    def close(self) -> None:
        """The sender is gone: of what is on its way, some still arrives, then the end of it."""
        if self._wire.cuts and not self._wires.has_late_packets:
            self._queue.clear()
        elif self._queue:
            kept = self._wires.random.randint(0, len(self._queue))
            while len(self._queue) > max(kept, 1):
                self._queue.pop()
        self.send(None)

    def kill(self) -> None:
        """Nothing more arrives."""
        self._is_dead = True
        self._queue.clear()

    def arrive(self) -> None:
        """Deliver the first message, unless the wire is cut."""
        if self._is_dead or not self._queue:
            return
        if self._wire.cuts:
            if self not in self._wire.stuck:
                self._wire.stuck.append(self)
            return
        _, frames = self._queue.popleft()
        if self._queue:
            self._wires.time.at(max(self._queue[0][0], self._wires.time.now), self.arrive)
        if frames is None:
            self._end()
        else:
            self._wires.arrived(frames)
            self._deliver(frames)
