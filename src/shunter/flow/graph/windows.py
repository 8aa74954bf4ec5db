"""Windows of time, and the marks that say how far time has come.

A watermark is an instruction that a source sends between its events: no more events before that
time are to be expected. So every runner closes windows at the same events. Pure.
"""

from __future__ import annotations

import math
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.fields import Field, Getter, is_field
from shunter.flow.graph.source_line import users_line
from shunter.flow.graph.times import Number, Seconds, seconds_of


class Window:
    """Windows of `size` seconds, a new one `every` so many; side by side by default.

    They begin at multiples of `every`. `time` is the field with an event's time, or a function.
    """

    def __init__(self, size: Seconds, *, every: Seconds | None = None, time: Field) -> None:
        self.size = seconds_of(size, "size")
        self.every = self.size if every is None else seconds_of(every, "every")
        if self.every > self.size:
            raise _fault(
                f"every is {self.every:g} and size {self.size:g}, so events between two windows "
                "would be in none; let every be at most size"
            )
        if not is_field(time):
            raise _fault(f"time is {time!r}; name the field, or pass a function of the event")
        self.time = Getter(time)

    @property
    def most(self) -> int:
        """How many windows an event is in, at most."""
        return math.ceil(self.size / self.every)

    def starts(self, moment: Number) -> list[Number]:
        """Return where the windows of a moment begin, the last first."""
        last = self._floor(moment)
        starts = [last - number * self.every for number in range(self.most)]
        return [start for start in starts if start + self.size > moment]

    def end(self, start: Number) -> Number:
        return start + self.size

    def _floor(self, moment: Number) -> Number:
        if isinstance(moment, int) and isinstance(self.every, int):
            return moment // self.every * self.every
        start = float(math.floor(moment / self.every) * self.every)
        return start - self.every if start > moment else start  # the quotient was rounded up

    def __repr__(self) -> str:
        return f"Window({self.size}, every={self.every}, time={self.time!r})"


class Marks:
    """How far time has come by the marks of all origins: as far as the one that is most behind.

    Origins that are `expected` hold it back until they are heard of.
    """

    def __init__(self, expected: frozenset[str] = frozenset()) -> None:
        self._of: dict[str, Number | None] = dict.fromkeys(expected)

    @property
    def lowest(self) -> Number | None:
        """The time before which nothing is expected; None where that is not known."""
        known = [mark for mark in self._of.values() if mark is not None]
        return min(known) if known and len(known) == len(self._of) else None

    def heard(self, origin: str, mark: Number | None) -> None:
        before = self._of.get(origin)
        if mark is None or before is None:
            self._of[origin] = before if mark is None else mark
        else:
            self._of[origin] = max(before, mark)

    def snapshot(self) -> Any:
        return [[origin, mark] for origin, mark in self._of.items()]

    def restore(self, saved: Any) -> None:
        self._of.update(dict(saved))


def _fault(reason: str) -> FlowError:
    return FlowError(reason, place=str(users_line()))
