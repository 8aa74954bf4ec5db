"""When to look for alarms: often while things happen, rarely while nothing does. Pure.

What we wrote ourselves may have set an alarm, so we look again soon after each turn that wrote any
job. What others set, they look after themselves; should they die, a look every second is soon
enough.
"""

from __future__ import annotations

RARELY_SECONDS = 1.0


class AlarmClock:
    """Remembers the last look, and what it was told about the next alarm."""

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        self._turns = -1
        self._next: float | None = None

    def is_time(self, *, now: float, turns: int) -> bool:
        """True if a look may find something; `turns` counts those of ours that wrote jobs."""
        is_due = self._next is not None and now >= self._next
        return is_due or turns != self._turns or now - self._looked_at >= RARELY_SECONDS

    def looked(self, *, now: float, turns: int, next_alarm: float | None) -> None:
        """Note a look, made after so many turns, and when the earliest alarm is set for."""
        self._looked_at, self._turns, self._next = now, turns, next_alarm
