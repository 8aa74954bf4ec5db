"""A clock that ticks: events that come by time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from shunter.errors import FlowError


class Ticks:
    """An event at a fixed interval: `{"tick": 1, "time": …}`, then 2, and so on.

    The time is when the tick was due. Reopened, it goes on in the same rhythm, and what became
    due meanwhile comes at once. With `limit` it ends after so many.
    """

    def __init__(
        self, every: float, *, limit: int | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        if not every > 0:
            raise FlowError(f"every is {every!r}; give seconds, more than 0")
        self._every, self._limit, self._clock = every, limit, clock
        self._begun = 0.0
        self._count = 0

    def open(self, position: Any | None) -> None:
        self._count, self._begun = (0, self._clock()) if position is None else position

    def read(self, limit: int) -> list[Any] | None:
        if self._limit is not None:
            limit = min(limit, self._limit - self._count)
        if limit <= 0:
            return None
        due = int((self._clock() - self._begun) / self._every)
        first, last = self._count + 1, min(due, self._count + limit)
        self._count = max(self._count, last)
        return [
            {"tick": tick, "time": self._begun + tick * self._every}
            for tick in range(first, last + 1)
        ]

    def position(self) -> Any:
        return [self._count, self._begun]

    def close(self) -> None:
        return
