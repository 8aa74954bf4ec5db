"""Sinks that Spark itself writes: columns go into files at once, and are published at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.envelopes import Tallies
from shunter.flow.sinks.parquet_folder import WriteParquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


class ColumnFilesFeed:
    """A folder of Parquet files; Spark's tasks write them into the staging folder of the sink."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._sink: WriteParquet = stage.what
        self._rows = 0
        self._sink.open(None)

    @property
    def tallies(self) -> Tallies:
        return {f"{self._stage.name}.0": {self._stage.name: (self._rows, 0, 0)}}

    def take(self, frame: DataFrame) -> None:
        with _plain_timestamps(frame.sparkSession):
            frame.write.mode("overwrite").parquet(self._sink.room_for_files.as_uri())
        self._rows = self._sink.take_files()

    def close(self) -> None:
        self._sink.close()

    def abandon(self) -> None:
        self._sink.abandon()


@contextmanager
def _plain_timestamps(session: SparkSession) -> Iterator[None]:
    """Have times written as everybody reads them, and not in the way of old Hives."""
    before = session.conf.get(_TIMESTAMPS)
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(_TIMESTAMPS, str(before))
