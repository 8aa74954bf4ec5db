"""The streaming query that somebody would write by hand for what `spark_streaming.py` measures.

A thousand pairs a batch from a Python data source; by Spark's own hash to two partitions; in each
a `mapInArrow` with one object per key, whose states come from a file of the batch before and go
into a file of this one; the rows are appended to a JSON lines file, and a file with the number
of the batch has it count. So it is exactly once, as ours: files are synced, and what is half done
is done again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

NODES = 2


class RunningSum:
    def __init__(self, total: float = 0.0) -> None:
        self.total = total

    def on_event(self, number: float) -> float:
        self.total += number
        return self.total


class Pairs(DataSource):
    """Keys and numbers, so many at once."""

    @classmethod
    def name(cls) -> str:
        return "pairs-by-hand"

    def schema(self) -> str:
        return "key string, number double"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return PairsReader(*(int(self.options[name]) for name in ("events", "atonce", "keys")))


class PairsReader(SimpleDataSourceStreamReader):
    def __init__(self, events: int, at_once: int, keys: int) -> None:
        self._events, self._at_once, self._keys = events, at_once, keys

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        end = {"at": min(start["at"] + self._at_once, self._events)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Any]:
        numbers = range(start["at"], end["at"])
        if not numbers:
            return iter(())
        columns = [[f"key{n % self._keys}" for n in numbers], [float(n) for n in numbers]]
        return iter((pa.RecordBatch.from_arrays(list(map(pa.array, columns)), ["key", "number"]),))


def keyed(folder: str, batch: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what is done to a partition."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        states: dict[str, RunningSum] = {}
        node = None
        for rows in batches:
            keys, numbers = rows["key"].to_pylist(), rows["number"].to_pylist()
            if node is None and keys:
                node = rows["node"][0].as_py()
                before = Path(folder, f"{batch - 1}-{node}.json")
                if before.exists():
                    saved = json.loads(before.read_bytes())
                    states = {key: RunningSum(total) for key, total in saved.items()}
            totals = []
            for key, number in zip(keys, numbers, strict=True):
                state = states.get(key)
                if state is None:
                    state = states[key] = RunningSum()
                totals.append(state.on_event(number * 2))
            yield pa.RecordBatch.from_arrays([rows["key"], pa.array(totals)], ["key", "total"])
        if node is not None:
            body = json.dumps({key: state.total for key, state in states.items()})
            _write(Path(folder, f"{batch}-{node}.json"), body.encode())

    return work


def run(session: SparkSession, folder: Path, events: int, at_once: int, keys: int) -> list[float]:
    """Run the query to the end of its numbers; return when each batch was done."""
    states, out = folder / "states", folder / "out.jsonl"
    states.mkdir(parents=True)
    out.touch()
    done: list[float] = []

    def step(batch: DataFrame, number: int) -> None:
        commit = folder / "commit.json"
        last = json.loads(commit.read_text()) if commit.exists() else {"batch": -1, "size": 0}
        if number <= last["batch"]:
            return
        node = f.pmod(f.hash("key"), f.lit(NODES)).alias("node")
        rows = (
            batch.select("key", "number", node)
            .repartitionById(NODES, f.col("node"))
            .mapInArrow(keyed(str(states), number), "key string, total double")
            .toArrow()
        )
        lines = b"".join(
            json.dumps(row).encode() + b"\n"
            for row in zip(rows["key"].to_pylist(), rows["total"].to_pylist(), strict=True)
        )
        with open(out, "r+b") as file:
            file.truncate(last["size"])
            file.seek(last["size"])
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        size = last["size"] + len(lines)
        _write(commit, json.dumps({"batch": number, "size": size}).encode())
        for node_number in range(NODES):
            (states / f"{number - 1}-{node_number}.json").unlink(missing_ok=True)
        done.append(time.monotonic())

    session.dataSource.register(Pairs)
    stream = session.readStream.format("pairs-by-hand").options(
        events=events, atonce=at_once, keys=keys
    )
    writer = stream.load().writeStream.foreachBatch(step)
    query = writer.option("checkpointLocation", str(folder / "spark")).start()
    while len(done) * at_once < events and query.isActive:
        time.sleep(0.02)
    query.stop()
    if error := query.exception():
        raise error
    return done


def _write(path: Path, body: bytes) -> None:
    staged = path.with_suffix(".part")
    with open(staged, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(staged, path)
