"""Flows on Spark beside the best that was written by hand, in one session and in turns.

Events (a key of 10,000, a value, a time) in Parquet files are mapped and filtered, summed up and
counted by key, and written as Parquet: with a Python function for each event, with expressions of
Spark's own, and with an object of Python's for each key, which instructions reach as well. How
long Spark takes to start is shown apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench import spark_by_hand as by_hand
from bench.spark_events import Reading, Totals, WithInstruction, is_wanted, priced
from bench.stage import Stage, conclude, say, sizes
from shunter.flow.flow import Flow
from shunter.flow.graph.aggregates import Count, Sum
from shunter.flow.graph.instructions import END_OF_STREAM
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.sinks import WriteParquet
from shunter.flow.sources import ParquetRows

KEYS = 10_000
FILES = 4


def with_functions(events: Path, out: Path, _: int) -> Flow:
    flow = Flow("functions")
    kept = flow.source(ParquetRows(events, type=Reading)).map(priced).filter(is_wanted)
    told = kept.key_by("key").aggregate(total=Sum("value"), count=Count())
    told.sink(WriteParquet(out))
    return flow


def raised(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key", "value * 1.2D + 1 as value").where("value > 30")


def with_expressions(events: Path, out: Path, _: int) -> Flow:
    flow = Flow("expressions")
    framed = flow.source(ParquetRows(events)).frame(raised)
    told = framed.key_by("key").aggregate(total=Sum("value"), count=Count())
    told.sink(WriteParquet(out))
    return flow


def with_states(events: Path, out: Path, count: int) -> Flow:
    flow = Flow("states", instructions=["half_time"])
    source = WithInstruction(ParquetRows(events, type=Reading), count // 2)
    readings = flow.source(source, workers=os.cpu_count() or 2)
    told = readings.key_by("key").stateful(Totals, any_order=True)
    told.sink(WriteParquet(out))
    return flow


WAYS: dict[str, tuple[Callable[[Path, Path, int], Flow], Callable[..., DataFrame]]] = {
    "functions": (with_functions, by_hand.with_functions),
    "expressions": (with_expressions, by_hand.with_expressions),
    "states": (with_states, by_hand.with_states),
}


def _make_events(folder: Path, count: int) -> Path:
    folder.mkdir()
    for part in range(FILES):
        numbers = np.arange(part * count // FILES, (part + 1) * count // FILES)
        columns = {
            "key": numbers * 2_654_435_761 % KEYS,
            "value": (numbers % 1_000) / 8,
            "time": numbers / 1_000,
        }
        path = folder / f"part-{part}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=500_000)
    return folder


def _by_flow(session: SparkSession, name: str, events: Path, out: Path, count: int) -> float:
    began = time.perf_counter()
    run_on_spark(WAYS[name][0](events, out, count), session)
    return time.perf_counter() - began


def _by_hand(session: SparkSession, name: str, events: Path, out: Path, _: int) -> float:
    began = time.perf_counter()
    WAYS[name][1](session, str(events)).write.mode("overwrite").parquet(str(out))
    return time.perf_counter() - began


WHO = {"flow": _by_flow, "hand": _by_hand}


def _check(name: str, folder: Path) -> None:
    """Both ways have the same results."""
    found = []
    for way in ("flow", "hand"):
        # A sink with several workers has a folder for each of them.
        table = pa.concat_tables(map(pq.read_table, sorted(folder.glob(f"{way}*"))))
        if "told" in table.column_names:
            table = table.filter(pa.compute.equal(table["told"], END_OF_STREAM))
        columns = (table[name].to_pylist() for name in ("key", "count"))
        found.append(sorted(zip(*columns, strict=True)))
    assert found[0] == found[1], f"{name}: the flow has other results than the program by hand"


def main() -> None:
    chosen = sizes(__doc__ or "", events=10_000_000, rounds=5)
    cores = os.cpu_count() or 2
    runs: dict[str, list[float]] = {}
    total, done = len(WAYS) * 2 * (chosen.rounds + 1) + 1, 0
    with Stage() as stage:
        say("session", done, total)
        began = time.perf_counter()
        session = spark_session(f"local[{cores}]", options={"spark.driver.memory": "2g"})
        session.range(1).count()
        session_seconds = time.perf_counter() - began
        count = chosen.events
        events = _make_events(stage.folder / "events", count)
        for number in range(chosen.rounds + 1):
            for name in WAYS:
                out = stage.folder / name
                out.mkdir(exist_ok=True)
                say(name, done, total)
                took = {}
                for way in ("flow", "hand") if number % 2 else ("hand", "flow"):
                    took[way] = WHO[way](session, name, events, out / way, count)
                _check(name, out)
                if number:  # the first round warms Java up
                    for way, seconds in took.items():
                        runs.setdefault(f"{name}_{way}", []).append(count / seconds)
                done += 2
        session.stop()
    conclude(
        events=chosen.events,
        cores=cores,
        session_seconds=session_seconds,
        **{name: median(found) for name, found in runs.items()},
        runs=runs,
    )


if __name__ == "__main__":
    main()
