"""How many sessions a worker has: one for each slot, and more while tasks are short and many. Pure.

A session gets its next task only when the end of the one before is stored and confirmed. Where that
takes longer than the task, its slot would idle. So while sessions fill again as soon as they are
free, there are more of them, and their tasks wait here for a slot: never more than the pool does
in a moment, which is its window. A dispatcher gains by it, too: a task for which a session is free
when it comes is started by the write that stores it, and need not be read again to be claimed.
"""

from __future__ import annotations

from collections import deque

SESSIONS_PER_SLOT = 128
MOST_SESSIONS = 512
"""Each has a socket, and many systems allow a process no more than 1,024 files."""

LOOKS = 4
"""What was seen at so many looks in a row counts together. A session whose packets get lost has its
next task after several looks; it is not idle for that."""

BRISK = 2
"""So many tasks for each slot in these looks are many."""

SPARE_PART = 0.75
"""Sessions are in use if fewer than this part of them is idle: those are between two tasks. With
packets that get lost a session waits for its next task for about half of the time."""

CALM_LOOKS = 20
"""After so many looks in a row with less than a task for every eighth session, there are fewer."""
CALM_PART = 8


class SessionCount:
    """To be asked every few moments. Between the bounds, sessions double or halve.

    `slots` changes as children come up.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._calm = 0
        self._seen: deque[tuple[int, float]] = deque(maxlen=LOOKS)

    def wanted(self, sessions: int, *, begun: int, idle: int, window: int) -> int:
        """Say how many sessions there should be.

        Since the last look so many tasks have begun; so many sessions have none just now.
        """
        most = max(self.slots, min(window, self.slots * SESSIONS_PER_SLOT, MOST_SESSIONS))
        self._calm = self._calm + 1 if CALM_PART * begun < sessions else 0
        self._seen.append((begun, idle / max(1, sessions)))
        recently = sum(some for some, _ in self._seen)
        spare = sum(part for _, part in self._seen) / len(self._seen)
        if recently >= max(sessions, BRISK * self.slots) and spare < SPARE_PART:
            sessions *= 2
            self._seen.clear()
        elif self._calm >= CALM_LOOKS:
            self._calm, sessions = 0, sessions // 2
        return max(self.slots, min(sessions, most))
