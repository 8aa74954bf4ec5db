"""How many seats a worker has: one for each slot, and more while tasks are short and many. Pure.

A seat gets its next task only when the end of the one before is stored and confirmed. Where that
takes longer than the task, its slot would idle. So while seats fill again as soon as they are
free, there are more of them, and their tasks wait here for a slot: never more than the pool does
in a moment, which is its window. A dispatcher gains by it, too: a task for which a seat is free
when it comes is started by the write that stores it, and need not be read again to be claimed.
"""

from __future__ import annotations

SEATS_PER_SLOT = 128
MOST_SEATS = 512
"""Each has a socket, and many systems allow a process no more than 1,024 files."""

BRISK = 4
"""So many tasks for each slot between two looks are many."""

SPARE_PART = 8
"""Seats are all taken if no more than an eighth of them is idle: those are between two tasks."""

CALM_LOOKS = 20
"""After so many looks in a row with less than a task for every other seat, there are fewer."""


class Seating:
    """To be asked every few moments. Between the bounds, seats double or halve.

    `slots` changes as children come up.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._calm = 0

    def wanted(self, seats: int, *, begun: int, idle: int, window: int) -> int:
        """Say how many seats there should be.

        Since the last look so many tasks have begun; so many seats have none just now.
        """
        most = max(self.slots, min(window, self.slots * SEATS_PER_SLOT, MOST_SEATS))
        self._calm = self._calm + 1 if 2 * begun < seats else 0
        is_brisk = begun >= max(seats, BRISK * self.slots)
        if is_brisk and idle <= seats // SPARE_PART:
            seats *= 2
        elif self._calm >= CALM_LOOKS:
            self._calm, seats = 0, seats // 2
        return max(self.slots, min(seats, most))
