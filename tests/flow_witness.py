"""What the flows of `flow_cases.py` are made of: a sink that keeps everything, sources, states.

FLOW_CASES names the folder in which outputs are written down. `CASES` says of each flow how many
events come out of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from shunter import Flow
from shunter.flow.graph.instructions import END_OF_STREAM, FLUSH
from shunter.flow.graph.stages import Outlet

CASES: dict[str, int] = {}


def case(count: int, **options: Any) -> Callable[[Callable[[Flow], None]], Flow]:
    """Make a flow of a function that builds it, under the function's name."""

    def made(build: Callable[[Flow], None]) -> Flow:
        flow = Flow(build.__name__, **options)
        flow.module = build.__module__
        build(flow)
        CASES[flow.name] = count
        return flow

    return made


def witness(outlet: Outlet, also: str = "", *, key: Any = None, workers: int | None = None) -> None:
    """End a flow, or a branch of it, with a sink that writes everything down."""
    outlet.sink(Witness(f"{outlet.flow.name}{also}", key), workers=workers)


class Witness:
    """Writes each event as Python shows it, so that its type counts too, and its key before it.

    Events of one key must come in the same order on every runner; no key, and any order will do.
    """

    def __init__(self, name: str, key: Callable[[Any], Any] | None = None, index: int = 0) -> None:
        self.name, self.key, self.index = name, key, index
        self.path = Path()

    def part(self, index: int, _: int) -> Witness:
        return Witness(self.name, self.key, index)

    def open(self, saved: int | None) -> None:
        self.path = Path(os.environ["FLOW_CASES"]) / f"{self.name}.{self.index}.txt"
        with self.path.open("ab") as file:
            file.truncate(saved or 0)

    def write(self, events: Iterable[Any]) -> int:
        keys_and_events = [(self.key and self.key(event), event) for event in events]
        with self.path.open("ab") as file:
            file.write("".join(f"{each!r}\n" for each in keys_and_events).encode())
        return len(keys_and_events)

    def checkpoint(self) -> int:
        return self.path.stat().st_size

    def close(self) -> None:
        return


class Numbers:
    """A source that can be split: the numbers below `stop`, a hundred at a time."""

    def __init__(self, stop: int, first: int = 0, step: int = 1) -> None:
        self.stop, self.first, self.step = stop, first, step

    def part(self, index: int, count: int) -> Numbers:
        return Numbers(self.stop, index, count)

    def open(self, position: int | None) -> None:
        self.at = self.first if position is None else position

    def read(self, limit: int) -> list[int] | None:
        numbers = range(self.at, self.stop, self.step)[: min(limit, 100)]
        self.at += len(numbers) * self.step
        return list(numbers) or None

    def position(self) -> int:
        return self.at

    def close(self) -> None:
        return


class Running:
    """Says of each number which it is among those of its key, and the sum so far."""

    def __init__(self, key: Any) -> None:
        self.key, self.count, self.total = key, 0, 0

    def on_event(self, number: int) -> tuple[Any, int, int]:
        self.count += 1
        self.total += number
        return self.key, self.count, self.total


class Numbered:
    """Numbers the events of one key, of whatever type they are."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Any) -> tuple[int, str]:
        self.count += 1
        return self.count, repr(event)


class Counted:
    """Counts, and says so at the end."""

    def __init__(self, key: Any) -> None:
        self.key, self.count = key, 0

    def on_event(self, _: Any) -> None:
        self.count += 1

    def on_instruction(self, instruction: Any) -> tuple[Any, int] | None:
        return (self.key, self.count) if instruction.name == END_OF_STREAM else None


class Total:
    """Adds up, and says so whenever an instruction comes."""

    def __init__(self, key: Any) -> None:
        self.key, self.total = key, 0

    def on_event(self, number: int) -> None:
        self.total += number

    def on_instruction(self, instruction: Any) -> Any:
        return self.key, instruction.name, instruction.data, self.total


class OwnTotal(Total):
    """Heeds only the instructions that are meant for it."""

    def on_instruction(self, instruction: Any) -> Any:
        return super().on_instruction(instruction) if instruction.data == self.key else None


class Echo:
    """Yields every other event twice, and each instruction by name."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, number: int) -> Iterator[int]:
        self.count += 1
        if self.count % 2:
            yield number
            yield -number

    def on_instruction(self, instruction: Any) -> Iterator[str]:
        yield instruction.name


class Batch:
    """Puts five events together, and fewer where it is told to flush or has come to the end."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_event(self, event: Any) -> list[Any] | None:
        self.events.append(event)
        return self.given() if len(self.events) == 5 else None

    def on_instruction(self, instruction: Any) -> list[Any] | None:
        is_due = instruction.name in (FLUSH, END_OF_STREAM) and self.events
        return self.given() if is_due else None

    def given(self) -> list[Any]:
        events, self.events = self.events, []
        return events


class Distinct:
    """Lets each event pass once; its state is a set, which it saves itself."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def on_event(self, number: int) -> int | None:
        if number in self.seen:
            return None
        self.seen.add(number)
        return number

    def snapshot(self) -> list[int]:
        return sorted(self.seen)

    def restore(self, saved: list[int]) -> None:
        self.seen = set(saved)
