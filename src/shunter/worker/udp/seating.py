"""How many seats a worker has: one for each slot, and more while tasks are short and many. Pure.

A seat gets its next task only when the end of the one before is stored and confirmed. Where that
takes longer than the task, its slot would idle. So while seats fill again as soon as they are
free, there are more of them, and their tasks wait here for a slot: never more than the crew does
in a moment, which is its window.
"""

from __future__ import annotations

SEATS_PER_SLOT = 32

BRISK = 4
"""So many tasks for each seat between two looks are reason enough for more seats."""

CALM_LOOKS = 20
"""After so many looks in a row with less than a task for each seat, there are fewer."""


class Seating:
    """To be asked every few moments. Between the bounds, seats double or halve."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._calm = 0

    def wanted(self, seats: int, *, begun: int, window: int) -> int:
        """Say how many seats there should be, if so many tasks have begun since the last look."""
        most = max(self._slots, min(window, self._slots * SEATS_PER_SLOT))
        self._calm = self._calm + 1 if begun < seats else 0
        if begun >= BRISK * seats:
            seats *= 2
        elif self._calm >= CALM_LOOKS:
            self._calm, seats = 0, seats // 2
        return max(self._slots, min(seats, most))
