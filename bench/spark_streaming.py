"""Micro-batches of a stream on Spark: a flow of running sums beside a query written by hand.

Both in one session, in turns, with the same numbers, as many partitions, states and output kept in
files, exactly once. Then what states of many keys cost: a thousand events a batch among 10,000
and 100,000 keys.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench import stream_by_hand
from bench.stage import Stage, conclude, say, sizes
from shunter import Flow
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import WriteJsonLines

NODES = stream_by_hand.NODES
FEW_KEYS = 1_000
MANY_KEYS = (10_000, 100_000)
WARM_UP = 5
"""So many batches at the beginning don't count: Spark compiles, and Python's processes start."""


class Pairs:
    """Keys and numbers, up to an end."""

    def __init__(self, events: int, keys: int) -> None:
        self._events, self._keys = events, keys

    def open(self, position: int | None) -> None:
        self._at = position or 0

    def read(self, limit: int) -> list[tuple[str, float]] | None:
        numbers = range(self._at, min(self._at + limit, self._events))
        self._at += len(numbers)
        return [(f"key{n % self._keys}", float(n)) for n in numbers] or None

    def position(self) -> int:
        return self._at

    def close(self) -> None:
        return


class RunningSum:
    def __init__(self) -> None:
        self.total = 0.0

    def on_event(self, event: tuple[str, float]) -> tuple[str, float]:
        key, number = event
        self.total += number
        return key, self.total


def doubled(event: tuple[str, float]) -> tuple[str, float]:
    return event[0], event[1] * 2


def flow_of(folder: Path, events: int, keys: int) -> Flow:
    flow = Flow("sums")
    pairs = flow.source(Pairs(events, keys)).map(doubled)
    sums = pairs.key_by(itemgetter(0)).stateful(RunningSum)
    sums.sink(WriteJsonLines(folder / "out.jsonl"), workers=1)
    return flow


def _ours(
    session: Any, folder: Path, events: int, at_once: int, keys: int, *, until: int | None = None
) -> list[float]:
    """Run the flow; return when each batch was done. `until` is how many batches are enough."""
    folder.mkdir(exist_ok=True)
    done: list[float] = []
    with suppress(Stopped):
        stream_on_spark(
            flow_of(folder, events, keys),
            session,
            checkpoints=folder / "checkpoint",
            nodes=NODES,
            max_events=at_once,
            progress=lambda _: done.append(time.monotonic()),
            should_stop=lambda: until is not None and len(done) >= until,
        )
    return done


def between(done: Sequence[float]) -> list[float]:
    """How long batches took, from the end of one to the end of the next."""
    steady = done[WARM_UP:]
    return [later - earlier for earlier, later in pairwise(steady)]


def _cpu_seconds() -> float:
    """What this process and its children, Spark and its Python workers, have used so far."""
    me = psutil.Process()
    seconds = 0.0
    for each in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # Python workers come and go
            times = each.cpu_times()
            seconds += times.user + times.system
    return seconds


def main() -> None:
    chosen = sizes(__doc__ or "", events=1_000, batches=40, rounds=3)
    events = chosen.events * chosen.batches
    total = 2 * chosen.rounds + 2 * len(MANY_KEYS)
    runs: dict[str, list[float]] = {"ours": [], "by_hand": []}
    cpu: dict[str, list[float]] = {"ours": [], "by_hand": []}
    growth: dict[str, float] = {}
    with Stage() as stage:
        session = spark_session(f"local[{NODES}]")
        ways = {"by_hand": stream_by_hand.run, "ours": _ours}
        for number in range(chosen.rounds):
            for place, (name, measure) in enumerate(ways.items()):
                say(name.replace("_", " "), 2 * number + place, total)
                folder, used = stage.folder / f"{name}-{number}", _cpu_seconds()
                done = measure(session, folder, events, chosen.events, FEW_KEYS)
                runs[name] += between(done)
                cpu[name].append((_cpu_seconds() - used) / len(done))
        for number, keys in enumerate(MANY_KEYS):
            folder = stage.folder / f"keys-{keys}"
            say(f"{keys:,} keys: filling", 2 * chosen.rounds + 2 * number, total)
            endless = keys * 1_000
            _ours(session, folder, endless, keys // 2, keys, until=3)
            say(f"{keys:,} keys", 2 * chosen.rounds + 2 * number + 1, total)
            done = _ours(session, folder, endless, chosen.events, keys, until=WARM_UP + 10)
            growth[f"keys_{keys}"] = median(between(done))
    medians = {name: median(found) for name, found in runs.items()}
    conclude(
        events=chosen.events,
        batches=chosen.batches,
        **medians,
        ratio=medians["ours"] / medians["by_hand"],
        **{f"cpu_{name}": median(found) for name, found in cpu.items()},
        **growth,
        load=os.getloadavg()[0],
        runs=runs,
    )


if __name__ == "__main__":
    main()
