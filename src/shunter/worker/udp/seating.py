"""How many seats a worker has: one for each slot, and more while tasks are short and many. Pure.

A seat gets its next task only when the end of the one before is stored and confirmed. Where that
takes longer than the task, its slot would idle. So while seats fill again as soon as they are
free, there are more of them, and their tasks wait here for a slot: never more than the pool does
in a moment, which is its window. A dispatcher gains by it, too: a task for which a seat is free
when it comes is started by the write that stores it, and need not be read again to be claimed.
"""

from __future__ import annotations

from collections import deque

SEATS_PER_SLOT = 128
MOST_SEATS = 512
"""Each has a socket, and many systems allow a process no more than 1,024 files."""

LOOKS = 4
"""What was seen at so many looks in a row counts together. A seat whose packets get lost has its
next task after several looks; it is not idle for that."""

BRISK = 2
"""So many tasks for each slot in these looks are many."""

SPARE_PART = 0.75
"""Seats are in use if fewer than this part of them is idle: those are between two tasks. With
packets that get lost a seat waits for its next task for about half of the time."""

CALM_LOOKS = 20
"""After so many looks in a row with less than a task for every eighth seat, there are fewer."""
CALM_PART = 8


class Seating:
    """To be asked every few moments. Between the bounds, seats double or halve.

    `slots` changes as children come up.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._calm = 0
        self._seen: deque[tuple[int, float]] = deque(maxlen=LOOKS)

    def wanted(self, seats: int, *, begun: int, idle: int, window: int) -> int:
        """Say how many seats there should be.

        Since the last look so many tasks have begun; so many seats have none just now.
        """
        most = max(self.slots, min(window, self.slots * SEATS_PER_SLOT, MOST_SEATS))
        self._calm = self._calm + 1 if CALM_PART * begun < seats else 0
        self._seen.append((begun, idle / max(1, seats)))
        recently = sum(some for some, _ in self._seen)
        spare = sum(part for _, part in self._seen) / len(self._seen)
        if recently >= max(seats, BRISK * self.slots) and spare < SPARE_PART:
            seats *= 2
            self._seen.clear()
        elif self._calm >= CALM_LOOKS:
            self._calm, seats = 0, seats // 2
        return max(self.slots, min(seats, most))
