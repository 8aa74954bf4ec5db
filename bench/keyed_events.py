"""Events, a function and a state that flows and programs by hand have in common.

They import little, for the memory of the tasks that they run in is measured.
"""

from __future__ import annotations

import msgspec

from shunter.flow.graph.instructions import Instruction

ONE_IN = 1_000

Told = tuple[int, float, int]


class Reading(msgspec.Struct):
    key: int
    value: float
    time: float


def priced(reading: Reading) -> Reading:
    return Reading(reading.key, reading.value * 1.2 + 1, reading.time)


class Totals:
    """Sums up, and tells so at the end, if it is one of those that are kept."""

    def __init__(self, key: int) -> None:
        self.key, self.total, self.count = key, 0.0, 0

    def on_event(self, reading: Reading) -> None:
        self.total += reading.value
        self.count += 1

    def on_instruction(self, _: Instruction) -> Told | None:
        return None if self.key % ONE_IN else (self.key, self.total, self.count)
