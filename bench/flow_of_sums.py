"""The flow that is measured: numbers with a key of a thousand, mapped, and added up by key.

BENCH_EVENTS says how many, BENCH_RATE how many a second (0: as fast as can be), BENCH_NOTES the
folder for what was measured: when the first event was given, and of each sink when it had the last,
how many, and how long they took.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from shunter import Flow

EVENTS = int(os.environ.get("BENCH_EVENTS", "1000000"))
RATE = float(os.environ.get("BENCH_RATE", "0"))
NOTES = Path(os.environ.get("BENCH_NOTES", "."))
KEYS = 1000


class Numbers:
    """Pairs of a key and a number; at a rate, of a key and when it was given."""

    def open(self, position: int | None) -> None:
        self._at = position or 0
        self._events = ((f"key{n % KEYS}", n) for n in range(self._at, EVENTS))
        self._began: float | None = None

    def read(self, limit: int) -> list[Any] | None:
        now = time.monotonic()
        if self._began is None:
            self._began = now
            note("source", {"began": now})
        if self._at >= EVENTS:
            return None
        if not RATE:
            events = list(islice(self._events, limit))
        else:
            due = min(int((now - self._began) * RATE) - self._at, limit, EVENTS - self._at)
            events = [(f"key{n % KEYS}", now) for n in range(self._at, self._at + due)]
        self._at += len(events)
        return events

    def position(self) -> int:
        return self._at

    def close(self) -> None:
        return


class Counting:
    """Counts events; at a rate, keeps how long each was on its way."""

    def __init__(self, index: int = 0) -> None:
        self._index = index

    def part(self, index: int, count: int) -> Counting:
        return Counting(index)

    def open(self, saved: int | None) -> None:
        self._count = saved or 0
        self._waits: list[float] = []

    def write(self, events: Sequence[Any]) -> int:
        self._count += len(events)
        if RATE:
            now = time.monotonic()
            self._waits.extend(now - given for _, given in events)
        return len(events)

    def on_instruction(self, _: Any) -> None:
        found = {"ended": time.monotonic(), "count": self._count, "waits": self._waits}
        note(f"sink-{self._index}", found)

    def checkpoint(self) -> int:
        return self._count

    def close(self) -> None:
        return


class RunningSum:
    def __init__(self) -> None:
        self.total = 0.0

    def on_event(self, event: tuple[str, float]) -> tuple[str, float]:
        key, number = event
        self.total += number
        return key, number if RATE else self.total


def doubled(event: tuple[str, float]) -> tuple[str, float]:
    key, number = event
    return key, number if RATE else number * 2


def note(name: str, found: dict[str, Any]) -> None:
    (NOTES / f"{name}.json").write_text(json.dumps(found))


flow = Flow("sums")
pairs = flow.source(Numbers(), name="numbers").map(doubled)
pairs.key_by(itemgetter(0)).stateful(RunningSum, name="sums").sink(Counting(), name="counting")
