"""Read, map, write: a Python function for each row, Parquet to Parquet, beside the same by hand.

Twice: rows of three columns, and rows of a hundred. The program by hand is one `mapInArrow` with
the same function, and `write.parquet`. With `--cluster 1` both run on a standalone cluster of two
workers in place of this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.stage import Stage, conclude, say, sizes
from shunter.flow.flow import Flow
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.sinks import WriteParquet
from shunter.flow.sources import ParquetRows
from shunter.testing.spark_cluster import LocalSparkCluster

FILES = 4
WIDE = 100

Row = dict[str, Any]


def priced(row: Row) -> Row:
    return {"key": row["key"], "value": row["value"] * 1.2 + 1, "time": row["time"]}


def raised(row: Row) -> Row:
    row["c0"] = row["c0"] * 1.2 + 1
    return row


def is_wanted(row: Row) -> bool:
    return bool(row["value"] > 30)


def is_raised(row: Row) -> bool:
    return bool(row["c0"] > 2)


SHAPES: dict[str, tuple[Callable[[Row], Row], Callable[[Row], bool]]] = {
    "narrow": (priced, is_wanted),
    "wide": (raised, is_raised),
}


def flow_of(shape: str, events: Path, out: Path) -> Flow:
    function, keeps = SHAPES[shape]
    flow = Flow(f"{shape}-rows")
    flow.source(ParquetRows(events)).map(function).filter(keeps).sink(WriteParquet(out))
    return flow


def by_hand(shape: str, schema: pa.Schema) -> Callable[[Iterator[Any]], Iterator[Any]]:
    function, keeps = SHAPES[shape]

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = list(filter(keeps, map(function, batch.to_pylist())))
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return work


def make_rows(folder: Path, shape: str, count: int) -> Path:
    folder.mkdir()
    for part in range(FILES):
        numbers = np.arange(part * count // FILES, (part + 1) * count // FILES)
        if shape == "narrow":
            columns = {
                "key": numbers % 10_000,
                "value": (numbers % 1_000) / 8,
                "time": numbers / 1e3,
            }
        else:
            columns = {f"c{n}": (numbers + n) % 1_000 / 8 for n in range(WIDE)}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet", row_group_size=count // 16)
    return folder


def _by_flow(session: SparkSession, shape: str, events: Path, out: Path) -> float:
    began = time.perf_counter()
    run_on_spark(flow_of(shape, events, out / "flow"), session)
    return time.perf_counter() - began


def _by_hand(session: SparkSession, shape: str, events: Path, out: Path) -> float:
    frame = session.read.parquet(str(events))
    schema = pq.read_schema(next(events.glob("*.parquet")))
    began = time.perf_counter()
    frame.mapInArrow(by_hand(shape, schema), frame.schema).write.mode("overwrite").parquet(
        str(out / "hand")
    )
    return time.perf_counter() - began


WHO = {"flow": _by_flow, "hand": _by_hand}


def _java_megabytes() -> float:
    """The memory of this session's Java, which the programs by hand have used as well."""
    java = [each for each in psutil.Process().children() if "java" in each.name()]
    return sum(each.memory_info().rss for each in java) / 1e6


def _check(out: Path) -> None:
    rows = [sum(pq.read_metadata(path).num_rows for path in (out / way).glob("*.parquet"))
            for way in WHO]  # fmt: skip
    assert rows[0] == rows[1], f"the flow has {rows[0]} rows, and the program by hand {rows[1]}"


def main() -> None:
    chosen = sizes(__doc__ or "", narrow=10_000_000, wide=1_000_000, rounds=3, cluster=0)
    runs: dict[str, list[float]] = {}
    megabytes = 0.0
    with Stage() as stage:
        cluster = LocalSparkCluster(stage.folder / "cluster") if chosen.cluster else None
        master = cluster.start().url if cluster else f"local[{os.cpu_count() or 2}]"
        session = spark_session(master)
        session.range(1).count()
        done, total = 0, len(SHAPES) * 2 * (chosen.rounds + 1)
        events = {
            shape: make_rows(stage.folder / f"{shape}-events", shape, getattr(chosen, shape))
            for shape in SHAPES
        }
        for number in range(chosen.rounds + 1):
            for shape in SHAPES:
                out = stage.folder / shape
                out.mkdir(exist_ok=True)
                for way in ("flow", "hand") if number % 2 else ("hand", "flow"):
                    say(f"{shape} {way}", done, total)
                    took = WHO[way](session, shape, events[shape], out)
                    if number:  # the first round warms Java up
                        runs.setdefault(f"{shape}_{way}", []).append(getattr(chosen, shape) / took)
                    if way == "flow":
                        megabytes = max(megabytes, _java_megabytes())
                    done += 1
                _check(out)
        session.stop()
        if cluster is not None:
            cluster.stop()
    conclude(
        narrow_rows=chosen.narrow,
        wide_rows=chosen.wide,
        cores=os.cpu_count() or 2,
        java_megabytes=megabytes,
        **{name: median(found) for name, found in runs.items()},
        runs=runs,
    )


if __name__ == "__main__":
    main()
