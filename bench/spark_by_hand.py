"""The same work as in the flows of `spark.py`, written by hand against PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from bench.spark_events import Reading, Totals, is_wanted, priced
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction


def with_functions(session: SparkSession, path: str) -> DataFrame:
    """A Python function for each event, in one `mapInArrow`, and Spark's own sums."""
    kept = session.read.parquet(path).mapInArrow(_priced, "key long, value double")
    return _summed(kept)


def with_expressions(session: SparkSession, path: str) -> DataFrame:
    """Expressions of Spark's own all the way."""
    value = (functions.col("value") * 1.2 + 1).alias("value")
    return _summed(session.read.parquet(path).select("key", value).where("value > 30"))


def with_states(session: SparkSession, path: str) -> DataFrame:
    """An object for each key, fed by `applyInArrow`."""
    schema = "key long, told string, total double, count long"
    return session.read.parquet(path).groupBy("key").applyInArrow(_told, schema)


def _summed(frame: DataFrame) -> DataFrame:
    total, count = functions.sum("value"), functions.count(functions.lit(1))
    return frame.groupBy("key").agg(total.alias("total"), count.alias("count"))


def _priced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = (batch.column(name).to_numpy().tolist() for name in ("key", "value", "time"))
        kept = list(filter(is_wanted, map(priced, map(Reading, *columns))))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([reading.key for reading in kept], pa.int64()),
                pa.array([reading.value for reading in kept], pa.float64()),
            ],
            names=["key", "value"],
        )


def _told(table: pa.Table) -> pa.Table:
    columns = [table.column(name).to_numpy().tolist() for name in ("key", "value", "time")]
    state = Totals(columns[0][0])
    for reading in map(Reading, *columns):
        state.on_event(reading)
    told: dict[str, Any] = state.on_instruction(Instruction(END_OF_STREAM))
    return pa.Table.from_pylist([told])
