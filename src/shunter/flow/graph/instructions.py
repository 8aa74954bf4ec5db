"""Processing instructions: what travels between events, in order with them, and to everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

END_OF_STREAM = "end of stream"
FLUSH = "flush"
CHECKPOINT = "checkpoint"
WATERMARK = "watermark"

BUILT_IN = frozenset({END_OF_STREAM, FLUSH, CHECKPOINT, WATERMARK})


@dataclass(frozen=True, slots=True)
class Instruction:
    """Users give name and data.

    `origin` is the worker of the source that it comes from, which numbers its own; "" is for
    checkpoints and the end, which all sources send.
    """

    name: str
    data: Any = None
    origin: str = ""
    number: int = 0

    @property
    def identity(self) -> tuple[str, int]:
        """What tells this instruction from others."""
        return self.origin, self.number


def least_far(one: Instruction, other: Instruction) -> Instruction:
    """Return which of two copies of an instruction counts, that came by different ways.

    They differ only in how far time has come: a stage that holds events holds it back as well.
    """
    if one.name != WATERMARK or one.data is None or other.data is None:
        return one
    return one if one.data <= other.data else other
