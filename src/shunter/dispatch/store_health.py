"""Whether the store does what it is asked, as far as its dispatcher has seen.

Whoever wants to put a job in should hear that the store fails while it does, and why, and not wait
for an answer that can't come. A moment's fault is nobody's business: work is simply done again.
Pure: the time is asked of the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable

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

    def observed(self, part: str = TURN) -> Observation:
        """Take note of how the work inside goes; only that of turns may stall."""
        return Observation(self, part)

    def begin(self, part: str) -> None:
        if part == TURN:
            self._turn_began = self._now()

    def end(self, part: str, error: BaseException | None) -> None:
        if part == TURN:
            self._turn_began = None
        if error is None:
            self._failing.pop(part, None)
        elif isinstance(error, StoreError):
            since, _ = self._failing.get(part, (self._now(), ""))
            self._failing[part] = since, str(error)

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


class Observation:
    """Work on the store, as a block; every turn has one, so it is no generator."""

    __slots__ = ("_health", "_part")

    def __init__(self, health: StoreHealth, part: str) -> None:
        self._health, self._part = health, part

    def __enter__(self) -> None:
        self._health.begin(self._part)

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._health.end(self._part, error)
