"""Sinks for tests and small flows: they keep events, or their number, where the flow was run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any


class Collect:
    """Appends all events to a list: to `events`, its own, or to the one that it is given."""

    def __init__(self, events: list[Any] | None = None) -> None:
        self.events: list[Any] = [] if events is None else events
        self._first = len(self.events)
        self._whole: Collect | None = None
        self._parts: dict[int, Collect] = {}

    def part(self, index: int, count: int) -> Collect:
        part = self._parts[index] = Collect()
        part._whole = self
        return part

    def open(self, saved: int | None) -> None:
        del self.events[self._first + (saved or 0) :]
        if self._whole is not None:
            self._whole._gather()

    def write(self, events: Sequence[Any]) -> int:
        self.events += events
        if self._whole is not None:
            self._whole.events += events
        return len(events)

    def checkpoint(self) -> int:
        return len(self.events) - self._first

    def close(self) -> None:
        return

    def _gather(self) -> None:
        parts = (part.events for part in self._parts.values())
        self.events[self._first :] = chain.from_iterable(parts)


class CountEvents:
    """Counts events: `count` is how many there were."""

    def __init__(self) -> None:
        self._own = 0
        self._parts: dict[int, CountEvents] = {}

    @property
    def count(self) -> int:
        return self._own + sum(part.count for part in self._parts.values())

    def part(self, index: int, count: int) -> CountEvents:
        part = self._parts[index] = CountEvents()
        return part

    def open(self, saved: int | None) -> None:
        self._own = saved or 0

    def write(self, events: Sequence[Any]) -> int:
        self._own += len(events)
        return len(events)

    def checkpoint(self) -> int:
        return self._own

    def close(self) -> None:
        return
