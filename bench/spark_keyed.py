"""Keyed state on Spark beside the best program by hand: an object for each of very many keys.

Events (a key, a value, a time) in Parquet files go to the object of their key, straight or through
a function, and each object tells its sums at the end. One in a thousand of these is kept, so that
keyed state is measured and no sink. The best by hand is `mapInArrow` over partitions that Spark has
sorted by key; `applyInArrow` is many times slower where keys have few events, and is measured on a
hundredth of them. Both run in turns in one session. Processor time is measured as well, for other
work on the machine changes it less. How much memory Python's processes take at most is measured in
sessions of their own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import keyed_by_hand as by_hand
from bench.keyed_events import Reading, Totals, priced
from bench.stage import Stage, conclude, peak_bytes, say, sizes
from shunter.flow.flow import Flow
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.session.spark_session import spark_session, stop_session
from shunter.flow.sinks import Collect
from shunter.flow.sources import ParquetRows

FILES = 4
POLL_SECONDS = 0.05

# ---- as flows


def straight(events: Path, out: Collect) -> Flow:
    flow = Flow("straight")
    source = flow.source(ParquetRows(events, type=Reading))
    source.key_by("key").stateful(Totals).sink(out, workers=1)
    return flow


def mapped(events: Path, out: Collect) -> Flow:
    flow = Flow("mapped")
    source = flow.source(ParquetRows(events, type=Reading))
    source.map(priced).key_by("key").stateful(Totals).sink(out, workers=1)
    return flow


# ---- measuring


WAYS = {"straight": (straight, by_hand.straight), "mapped": (mapped, by_hand.mapped)}


def _by_flow(session: SparkSession, name: str, events: Path) -> list[Any]:
    out = Collect()
    run_on_spark(WAYS[name][0](events, out), session)
    return sorted((key, count) for key, _, count in out.events)


def _by_hand(session: SparkSession, name: str, events: Path) -> list[Any]:
    rows = WAYS[name][1](session, str(events)).collect()
    return sorted((row["key"], row["count"]) for row in rows)


WHO = {"flow": _by_flow, "hand": _by_hand}


class MemoryWatch:
    """What the largest of Python's processes on Spark has had at most."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(OSError, psutil.Error, IndexError, ValueError):
                    if "python" in process.name():
                        self.most_bytes = max(self.most_bytes, peak_bytes(process.pid))


def _cpu_seconds() -> float:
    """How much processor time Java and Python have used for tasks so far."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found += times.user + times.system
    return found


def _make_events(folder: Path, count: int, keys: int) -> Path:
    folder.mkdir()
    for part in range(FILES):
        numbers = np.arange(part * count // FILES, (part + 1) * count // FILES)
        columns = {
            "key": numbers * 2_654_435_761 % keys,
            "value": (numbers % 1_000) / 8,
            "time": numbers / 1_000,
        }
        path = folder / f"part-{part}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=500_000)
    return folder


def _session() -> SparkSession:
    cores = os.cpu_count() or 2
    return spark_session(f"local[{cores}]", options={"spark.driver.memory": "2g"})


def _memory(way: str, events: Path) -> float:
    """Run once in a session of its own; return megabytes."""
    session = _session()
    with MemoryWatch() as watch:
        WHO[way](session, "straight", events)
    stop_session(session)
    return watch.most_bytes / 1e6


def main() -> None:
    chosen = sizes(__doc__ or "", events=5_000_000, keys=1_000_000, rounds=3)
    runs: dict[str, list[float]] = {}
    total, done = len(WAYS) * (chosen.rounds + 1) + 3, 0
    with Stage() as stage:
        events = _make_events(stage.folder / "events", chosen.events, chosen.keys)
        memory = {}
        for way in WHO:
            say(f"memory, {way}", done, total)
            memory[f"{way}_mb"] = _memory(way, events)
            done += 1
        session = _session()
        for number in range(chosen.rounds + 1):
            for name in WAYS:
                say(name, done, total)
                found = {}
                for way in ("flow", "hand") if number % 2 else ("hand", "flow"):
                    began, cpu_before = time.perf_counter(), _cpu_seconds()
                    found[way] = WHO[way](session, name, events)
                    took, cpu = time.perf_counter() - began, _cpu_seconds() - cpu_before
                    if number:  # the first round warms Java up
                        runs.setdefault(f"{name}_{way}", []).append(chosen.events / took)
                        runs.setdefault(f"{name}_{way}_cpu", []).append(cpu)
                assert found["flow"] == found["hand"], f"{name}: other results than by hand"
                done += 1
        say("applyInArrow", done, total)
        began = time.perf_counter()
        by_hand.grouped(session, str(events)).collect()
        grouped = chosen.events / by_hand.PART_GROUPED / (time.perf_counter() - began)
        session.stop()
    conclude(
        events=chosen.events,
        keys=chosen.keys,
        **memory,
        **{name: median(found) for name, found in runs.items()},
        grouped_hand=grouped,
        runs=runs,
    )


if __name__ == "__main__":
    main()
