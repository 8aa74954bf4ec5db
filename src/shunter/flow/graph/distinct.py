"""Events that come again: only those that are above the last one of their sender pass."""

from __future__ import annotations

from typing import Any

from shunter.flow.graph.fields import Field, Getter
from shunter.flow.graph.keys import as_key


class Distinct:
    """Makes, for each sender, what lets its events pass once; `sequence` is what rises in them."""

    __name__ = "distinct"

    def __init__(self, sequence: Field) -> None:
        self.sequence = Getter(sequence)

    @property
    def functions(self) -> list[Any]:
        """The user's functions in it."""
        return [self.sequence.function]

    def __call__(self) -> Passed:
        return Passed(self.sequence)


class Passed:
    """The highest number of one sender's that has passed."""

    def __init__(self, sequence: Getter) -> None:
        self._sequence = sequence
        self._last: Any = None

    def on_event(self, event: Any) -> Any:
        number = self._sequence(event)
        if self._last is not None and not number > self._last:
            return None
        self._last = number
        return event

    def snapshot(self) -> Any:
        return self._last

    def restore(self, saved: Any) -> None:
        self._last = as_key(saved)
