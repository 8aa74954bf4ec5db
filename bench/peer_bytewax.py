"""Bytewax, one worker: the same events, map, running sum by key and counting sink."""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import Any

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from bench.peer_timing import told

BATCH = 2048
KEYS = 1000


class Pairs(StatefulSourcePartition):
    def __init__(self, events: int) -> None:
        self._events = ((f"key{n % KEYS}", n) for n in range(events))

    def next_batch(self) -> list[Any]:
        batch = list(islice(self._events, BATCH))
        if not batch:
            raise StopIteration
        return batch

    def snapshot(self) -> None:
        return None


class Numbers(FixedPartitionedSource):
    def __init__(self, events: int) -> None:
        self._count = events

    def list_parts(self) -> list[str]:
        return ["one"]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> Pairs:
        return Pairs(self._count)


class Count(StatelessSinkPartition):
    total = 0

    def write_batch(self, items: list[Any]) -> None:
        Count.total += len(items)


class Counting(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> Count:
        return Count()


def doubled(event: tuple[str, int]) -> tuple[str, int]:
    key, number = event
    return key, number * 2


def summed(total: int | None, number: int) -> tuple[int, int]:
    total = (total or 0) + number
    return total, total


def main(events: int) -> None:
    flow = Dataflow("sums")
    pairs = op.map("doubled", op.input("numbers", flow, Numbers(events)), doubled)
    op.output("counting", op.stateful_map("sums", pairs, summed), Counting())
    began = time.perf_counter()
    run_main(flow)
    took = time.perf_counter() - began
    assert Count.total == events
    told({"events_per_second": events / took})


if __name__ == "__main__":
    main(int(sys.argv[1]))
