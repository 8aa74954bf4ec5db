"""Events into a CSV file, with the names of the columns on its first line."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shunter.errors import FlowError
from shunter.flow.sinks.appended_file import AppendedFile
from shunter.flow.sinks.growing_file import GrowingFile, check_target, part_of
from shunter.flow.sinks.records import records_of


class WriteCsv:
    """Writes each event as a row, exactly once; the file appears when all are written.

    `columns` are the fields to write, all those of the first event where nothing is said. Several
    workers write files of their own, such as out-00000-of-00004.csv.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
    ) -> None:
        self.path, self._delimiter = Path(path), delimiter
        self._given = None if columns is None else list(columns)
        self._columns: list[str] | None = None
        self._file: GrowingFile | AppendedFile

    def part(self, index: int, count: int) -> WriteCsv:
        path = part_of(self.path, index, count)
        return WriteCsv(path, columns=self._given, delimiter=self._delimiter)

    def check(self) -> None:
        check_target(Path(os.path.realpath(self.path)))

    def open(self, saved: Any | None) -> None:
        self._open(GrowingFile(Path(os.path.realpath(self.path))), saved)

    def open_shown(self, saved: Any | None) -> None:
        self._open(AppendedFile(Path(os.path.realpath(self.path))), saved)

    def _open(self, file: GrowingFile | AppendedFile, saved: Any | None) -> None:
        position, self._columns = saved or (None, None)
        self._file = file
        self._file.open(position)
        if self._columns is None and self._given is not None:
            self._write_header(self._given)

    def write(self, events: Sequence[Any]) -> int:
        records = records_of(events)
        if records and self._columns is None:
            self._write_header(list(records[0]))
        columns = self._columns or []
        try:
            rows = [[record[name] for name in columns] for record in records]
        except KeyError as error:
            raise self._fault(f"an event has no {error}") from None
        if self._given is None and any(len(record) > len(columns) for record in records):
            raise self._fault("an event has more fields than the first one")
        self._file.append(self._encoded(rows))
        return len(events)

    def checkpoint(self) -> Any:
        return [self._file.checkpoint(), self._columns]

    def publish(self) -> None:
        assert isinstance(self._file, AppendedFile), "opened to be seen at the end alone"
        self._file.publish()

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.let_go()

    def _write_header(self, columns: list[str]) -> None:
        self._columns = columns
        self._file.append(self._encoded([columns]))

    def _encoded(self, rows: list[list[Any]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode()

    def _fault(self, fact: str) -> FlowError:
        columns = ", ".join(self._columns or [])
        return FlowError(
            f"{self.path}: {fact}, and its columns are {columns}; name them with columns=…, and "
            "give each event all of them"
        )
