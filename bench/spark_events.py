"""Events, functions and states that flows on Spark and programs by hand have in common."""

from __future__ import annotations

from typing import Any

import msgspec

from shunter.flow.graph.instructions import Instruction
from shunter.flow.sources import ParquetRows


class Reading(msgspec.Struct):
    key: int
    value: float
    time: float


def priced(reading: Reading) -> Reading:
    return Reading(reading.key, reading.value * 1.2 + 1, reading.time)


def is_wanted(reading: Reading) -> bool:
    return reading.value > 30


class Totals:
    """Sums up, and tells so whenever an instruction comes."""

    def __init__(self, key: int) -> None:
        self.key, self.total, self.count = key, 0.0, 0

    def on_event(self, reading: Reading) -> None:
        self.total += reading.value
        self.count += 1

    def on_instruction(self, instruction: Instruction) -> dict[str, Any]:
        return {
            "key": self.key, "told": instruction.name, "total": self.total, "count": self.count,
        }  # fmt: skip


class WithInstruction:
    """Rows of Parquet files, with one instruction in the middle of them."""

    def __init__(self, source: ParquetRows, middle: int) -> None:
        self._source, self._middle, self._count = source, middle, 0

    def part(self, index: int, count: int) -> WithInstruction:
        return WithInstruction(self._source.part(index, count), self._middle // count)

    def open(self, position: Any | None) -> None:
        inner, self._count = (None, 0) if position is None else position
        self._source.open(inner)

    def read(self, limit: int) -> list[Any] | None:
        before, self._count = self._count, self._count + limit
        if before < self._middle <= self._count:
            return [Instruction("half_time")]
        return self._source.read(limit)

    def position(self) -> Any:
        return [self._source.position(), self._count]

    def close(self) -> None:
        self._source.close()
