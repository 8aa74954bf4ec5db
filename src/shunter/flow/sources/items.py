"""Events from any iterable of the user's."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.instructions import Instruction

READ_SECONDS = 0.02
AT_ONCE = 256


class Items:
    """The items of an iterable, or of what a function without arguments returns.

    The position is how many were read: reopened, the same number is passed over. An
    `Instruction` among the items is an instruction, at its place in the order.
    """

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not isinstance(items, Iterable) and not callable(items):
            raise FlowError(
                f"{items!r} has no items; pass an iterable, or a function that returns one"
            )
        self._items = items
        self._iterator: Iterator[Any] = iter(())
        self._waiting: deque[Any] = deque()
        self._count = 0
        self._drawn = 0

    def open(self, position: int | None) -> None:
        self._count = position or 0
        items = self._items if isinstance(self._items, Iterable) else self._items()
        iterator = iter(items)
        is_single = iterator is self._iterator
        if is_single and self._drawn > self._count:
            raise FlowError(
                f"{items!r} can be read only once, and {self._drawn} items are gone; pass a "
                "function that returns it anew"
            )
        passed_over = self._count - (self._drawn if is_single else 0)
        self._iterator = iterator
        self._waiting.clear()
        self._drawn = self._count
        next(islice(iterator, passed_over, passed_over), None)

    def read(self, limit: int) -> list[Any] | None:
        events = self._instruction_or_events(limit)
        self._count += len(events)
        return events or None

    def position(self) -> int:
        return self._count

    def close(self) -> None:
        self._waiting.clear()

    def _instruction_or_events(self, limit: int) -> list[Any]:
        if not self._waiting:
            events = self._draw(limit)
            if Instruction not in map(type, events):
                return events
            self._waiting.extend(events)
        events = []
        while self._waiting and len(events) < limit:
            if type(self._waiting[0]) is Instruction:
                return events or [self._waiting.popleft()]
            events.append(self._waiting.popleft())
        return events

    def _draw(self, limit: int) -> list[Any]:
        """Take items until there are enough, or some time has passed: first one, then ever more."""
        events: list[Any] = []
        until = time.monotonic() + READ_SECONDS
        count = 1
        while len(events) < limit:
            some = list(islice(self._iterator, min(count, limit - len(events))))
            events += some
            if len(some) < count or time.monotonic() > until:
                break
            count = min(2 * count, AT_ONCE)
        self._drawn += len(events)
        return events
