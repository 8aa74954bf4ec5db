"""The same work as in the flows of `spark_keyed.py`, written by hand against PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.keyed_events import Reading, Told, Totals, priced
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction

PART_GROUPED = 100
SCHEMA = "key long, total double, count long"
FIELDS = ("key", "value", "time")


def straight(session: SparkSession, path: str) -> DataFrame:
    return _sorted(session, path).mapInArrow(_told_by_key, SCHEMA)


def mapped(session: SparkSession, path: str) -> DataFrame:
    """The function is called where the objects are, for it leaves the keys as they are."""
    return _sorted(session, path).mapInArrow(_priced_and_told, SCHEMA)


def grouped(session: SparkSession, path: str) -> DataFrame:
    part = session.read.parquet(path).where(f"key % {PART_GROUPED} = 0")
    return part.groupBy("key").applyInArrow(_told_of_group, SCHEMA)


def _sorted(session: SparkSession, path: str) -> DataFrame:
    return session.read.parquet(path).repartition("key").sortWithinPartitions("key", "time")


def _readings(batches: Iterator[pa.RecordBatch]) -> Iterator[Reading]:
    for batch in batches:
        columns = (batch.column(name).to_numpy().tolist() for name in FIELDS)
        yield from map(Reading, *columns)


def _told_by_key(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _batch(_told(_readings(batches)))


def _priced_and_told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _batch(_told(map(priced, _readings(batches))))


def _told(readings: Iterator[Reading]) -> Iterator[Told]:
    for key, group in groupby(readings, key=attrgetter("key")):
        totals = Totals(key)
        for reading in group:
            totals.on_event(reading)
        if (told := totals.on_instruction(Instruction(END_OF_STREAM))) is not None:
            yield told


def _told_of_group(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches([_batch(_told(_readings(iter(table.to_batches()))))])


def _batch(told: Iterator[Told]) -> pa.RecordBatch:
    columns = list(zip(*told, strict=True)) or [(), (), ()]
    kinds = (pa.int64(), pa.float64(), pa.int64())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "total", "count"])
