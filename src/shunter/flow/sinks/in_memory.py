"""Sinks for tests and small flows: they keep events, or their number, where the flow was run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Collect:
    """Appends all events to a list: to `events`, its own, or to the one that it is given."""

    def __init__(self, events: list[Any] | None = None) -> None:
        self.events: list[Any] = [] if events is None else events
        self._first = len(self.events)

    def open(self, saved: int | None) -> None:
        del self.events[self._first + (saved or 0) :]

    def write(self, events: Sequence[Any]) -> int:
        self.events += events
        return len(events)

    def checkpoint(self) -> int:
        return len(self.events) - self._first

    def close(self) -> None:
        return


class Count:
    """Counts events: `count` is how many there were."""

    def __init__(self) -> None:
        self.count = 0

    def open(self, saved: int | None) -> None:
        self.count = saved or 0

    def write(self, events: Sequence[Any]) -> int:
        self.count += len(events)
        return len(events)

    def checkpoint(self) -> int:
        return self.count

    def close(self) -> None:
        return
