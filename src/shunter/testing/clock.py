"""A clock that moves only when it is told to."""

from __future__ import annotations

import threading


class VirtualClock:
    """Call it for the time, in seconds; threads may move it at once."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._moving = threading.Lock()

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time can't go back by {-seconds:g} s")
        with self._moving:
            self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Let time pass until then; a moment in the past changes nothing."""
        with self._moving:
            self._now = max(self._now, moment)
