"""What can be computed of all events of a key: number, sum, least, most, mean, how many differ.

Each is a pure accumulator: `start` is the state of nothing, `add` makes the next state of one and a
value, and `result` is what is told of it. As in SQL, a value that is None counts for nothing, and
where there was no other the result is None, or 0 where it is a number of things.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.fields import Field, Getter, is_field
from shunter.flow.graph.keys import stable_hash
from shunter.flow.graph.source_line import users_line
from shunter.flow.graph.windows import Window

SKETCH_SIZE = 12
"""Sketches have 2 ** 12 registers: estimates are off by 1.6 % at most two times out of three."""


class Aggregate(ABC):
    """One accumulator. `field` is the name of a field, or a function of the event."""

    def __init__(self, field: Field) -> None:
        if not is_field(field):
            raise FlowError(
                f"{type(self).__name__}({field!r}): this is no part of an event; pass the name of "
                "a field, or a function of the event",
                place=str(users_line()),
            )
        self.getter: Getter | None = Getter(field)

    def start(self) -> Any:
        return None

    @abstractmethod
    def add(self, state: Any, value: Any) -> Any:
        """Return the state that a value leads to."""

    def result(self, state: Any) -> Any:
        return state

    def saved(self, state: Any) -> Any:
        """Return a state as a value that can be encoded."""
        return state

    def loaded(self, saved: Any) -> Any:
        """Return the state that was saved."""
        return saved

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.getter is None else repr(self.getter)})"


class Count(Aggregate):
    """How many events there are."""

    def __init__(self) -> None:
        self.getter = None

    def start(self) -> int:
        return 0

    def add(self, state: int, _: Any) -> int:
        return state + 1


class Sum(Aggregate):
    """The sum of all values."""

    def add(self, state: Any, value: Any) -> Any:
        if value is None:
            return state
        return +value if state is None else state + value


class Min(Aggregate):
    """The least value."""

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or (value is not None and value < state) else state


class Max(Aggregate):
    """The greatest value."""

    def add(self, state: Any, value: Any) -> Any:
        return value if state is None or (value is not None and value > state) else state


class Mean(Aggregate):
    """The mean of all values."""

    def start(self) -> tuple[Any, int]:
        return 0, 0

    def add(self, state: tuple[Any, int], value: Any) -> tuple[Any, int]:
        if value is None:
            return state
        total, count = state
        return total + value, count + 1

    def result(self, state: tuple[Any, int]) -> Any:
        total, count = state
        return total / count if count else None


class ApproxDistinct(Aggregate):
    """About how many different values there are, in little room: a HyperLogLog sketch."""

    def start(self) -> Any:
        return _sketches().hll_sketch(SKETCH_SIZE)

    def add(self, state: Any, value: Any) -> Any:
        if value is not None:
            state.update(_hashable(value))
        return state

    def result(self, state: Any) -> int:
        estimate: float = state.get_estimate()
        return round(estimate)

    def saved(self, state: Any) -> bytes:
        return bytes(state.serialize_updatable())

    def loaded(self, saved: bytes) -> Any:
        return _sketches().hll_sketch.deserialize(saved)


@dataclass(frozen=True)
class Aggregation:
    """What an aggregating stage computes: aggregates by name, by window where there is one."""

    aggregates: Mapping[str, Aggregate]
    window: Window | None = None

    @property
    def getters(self) -> list[Getter]:
        """All parts of an event that it looks at, but for the key."""
        found = [each.getter for each in self.aggregates.values() if each.getter is not None]
        return found if self.window is None else [self.window.time, *found]

    @property
    def functions(self) -> list[Any]:
        """The user's functions in it."""
        return [getter.function for getter in self.getters]

    def names(self, key: str) -> list[str]:
        """Name the fields of a result, in their order."""
        times = [] if self.window is None else ["start", "end"]
        return [key, *times, *self.aggregates]


def _hashable(value: Any) -> int | str:
    """Return what a sketch takes, the same for values that are equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is str or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return stable_hash(value) - 2**63


def _sketches() -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as error:
        raise FlowError(
            f"ApproxDistinct needs the package datasketches, and it can't be imported ({error}); "
            "type: pip install 'shunter[flows]'"
        ) from error
