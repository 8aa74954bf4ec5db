"""Whether a run that is said to be running gets on: since when nothing has moved. Pure."""

from __future__ import annotations

from collections.abc import Hashable

AFTER_SECONDS = 60.0


class Stall:
    """Watches marks that change as long as something moves, such as counts of events.

    A run that moves again, or whose counts begin anew, is no longer stalled.
    """

    def __init__(self, after: float = AFTER_SECONDS) -> None:
        self._after = after
        self._marks: Hashable = None
        self._since: float | None = None

    def seen(self, now: float, marks: Hashable) -> float | None:
        """Take note of the marks; return for how many seconds they stand still, if for long."""
        if self._since is None or marks != self._marks:
            self._marks, self._since = marks, now
        still = now - self._since
        return still if still >= self._after else None
