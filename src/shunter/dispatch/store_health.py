"""Whether the store does what it is asked, as far as its dispatcher has seen.

Whoever wants to put a job in should hear that the store fails while it does, and why, and not wait
for an answer that can't come. A moment's fault is nobody's business: work is simply done again.
Pure: the time is asked of the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shunter.errors import StoreError

FAILING_SECONDS = 1.0
"""For how long the same work must have failed."""

STALLED_SECONDS = 5.0
"""For how long a turn must have waited for the store without hearing anything."""

TURN = "turn"


class StoreHealth:
    """What became of the work on one store, by the part of the dispatcher that asked for it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failing: dict[str, tuple[float, str]] = {}
        self._turn_began: float | None = None

    @contextmanager
    def observed(self, part: str = TURN) -> Iterator[None]:
        """Take note of how the work inside goes; only that of turns may stall."""
        if part == TURN:
            self._turn_began = self._now()
        try:
            yield
        except StoreError as error:
            since, _ = self._failing.get(part, (self._now(), ""))
            self._failing[part] = since, str(error)
            raise
        else:
            self._failing.pop(part, None)
        finally:
            if part == TURN:
                self._turn_began = None

    def fault(self) -> str:
        """Return why jobs can't be stored at present; nothing if they can."""
        now = self._now()
        for since, reason in self._failing.values():
            if now - since >= FAILING_SECONDS:
                return reason
        began = self._turn_began
        if began is not None and now - began >= STALLED_SECONDS:
            return f"the store has not answered for {now - began:.0f} s"
        return ""
