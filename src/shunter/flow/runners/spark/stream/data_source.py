"""Our sources as Spark's streaming ones: what Spark calls in the driver's Python and in executors.

Only `streaming_plan` imports it: the classes here are PySpark's subclasses. Admission control is
the reader's own: it gives no more events at once than it was told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from shunter.flow.runners.spark.batch.envelopes import COLUMNS
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.runners.spark.stream.packed_reader import Offset, PackedReader

Task = Callable[[Iterator[Any]], Iterator[Any]]


class BatchReader(SimpleDataSourceStreamReader):
    """Reads in the driver; what a batch is read again for, executors read.

    `task`, where there is one, is done at once to what was read. `mark` is a file with the number
    of the process that reads, for whoever must stop it.
    """

    def __init__(self, names: str, reader: PackedReader, task: Task | None, mark: str) -> None:
        self._names, self._reader, self._task, self._mark = names, reader, task, mark
        self._is_marked = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _plain(Offset())

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        with marked_faults(self._names):
            self._leave_mark()
            batch, end = self._reader.read(_offset(start))
            return self._rows(batch), _plain(end)

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[Any]:
        with marked_faults(self._names):
            batch = self._reader.read_again(_offset(start), _offset(end))
            self._reader.close()
            return self._rows(batch)

    def commit(self, end: dict[str, Any]) -> None:
        with marked_faults(self._names):
            self._reader.acknowledge(_offset(end))

    def _leave_mark(self) -> None:
        if not self._is_marked:
            Path(self._mark).write_text(str(os.getpid()))
            self._is_marked = True

    def _rows(self, batch: Any) -> Iterator[Any]:
        batches = () if batch is None else (batch,)
        return iter(batches if self._task is None else tuple(self._task(iter(batches))))


def data_source(name: str, reader: BatchReader) -> type[DataSource]:
    """Return the data source of one worker of a source, for a session to register."""

    class PackedEvents(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return COLUMNS

        def simpleStreamReader(self, schema: StructType) -> BatchReader:  # noqa: N802
            return reader

    return PackedEvents


def _offset(plain: dict[str, Any]) -> Offset:
    return msgspec.convert(plain, Offset)


def _plain(offset: Offset) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(offset)
    return found
