"""Events from CSV files whose first line has the names of the columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.sources.files import ByteRange, SourcePart, Where, found_files, line_number
from shunter.flow.sources.line_files import LineFiles

_BYTE_ORDER_MARK = "\ufeff"


class CsvRows:
    """The rows of a file, of a folder's `*.csv`, of a pattern's files, or of several of these.

    A row becomes a dict of texts. `converters` are functions for single columns, such as
    `{"age": int}`; with `type`, a dataclass or msgspec Struct, texts become what its fields are.
    At a row that does not fit, a ValueError names file and line; reading on continues behind it.
    Several workers share whole files.
    """

    def __init__(
        self,
        where: Where,
        *,
        converters: Mapping[str, Callable[[str], Any]] | None = None,
        type: Any = None,  # noqa: A002
        delimiter: str = ",",
    ) -> None:
        self._where, self.event_type, self._delimiter = where, type, delimiter
        self._converters = dict(converters or {})
        self._share = SourcePart()
        self._files: LineFiles
        self._names: list[str] = []
        self._rows: Iterator[list[str]] = iter(())

    def part(self, index: int, count: int) -> CsvRows:
        part = CsvRows(
            self._where,
            converters=self._converters,
            type=self.event_type,
            delimiter=self._delimiter,
        )
        part._share = SourcePart(index, count)
        return part

    def check(self) -> None:
        found_files(self._where, ".csv")

    def open(self, position: Any | None) -> None:
        files = self._share.of(found_files(self._where, ".csv"))
        self._files = LineFiles(self._where, [ByteRange(path) for path in files], position)
        self._rows = iter(())
        if self._files.file is not None:
            self._begin_file(self._files.offset)

    def read(self, limit: int) -> list[Any] | None:
        while True:
            before = self._files.offset
            try:
                rows = list(islice(self._rows, limit))
                events = self._events_of(rows)
            except Exception:
                return self._read_up_to_fault(before)
            if rows:
                self._files.note_offset()
            elif not self._begin_next():
                return None
            if events:
                return events

    def position(self) -> Any:
        return self._files.position

    def close(self) -> None:
        self._files.close()

    def _begin_next(self) -> bool:
        is_there = self._files.begin_next()
        if is_there:
            self._begin_file(0)
        return is_there

    def _begin_file(self, offset: int) -> None:
        """Read the names of the columns, and go to the offset if it is behind them."""
        self._files.go_to(0)
        try:
            names = next(self._reader(), [])
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{self._files.path}:1: {error}") from None
        self._names = [name.removeprefix(_BYTE_ORDER_MARK) for name in names]
        if names and (missing := [name for name in self._converters if name not in self._names]):
            raise FlowError(
                f"{self._files.path}: there is no column {missing[0]!r} to convert; it has "
                f"{', '.join(self._names)}"
            )
        self._files.note_offset()
        self._go_to(max(offset, self._files.offset))

    def _go_to(self, offset: int) -> None:
        self._files.go_to(offset)
        self._rows = self._reader()

    def _reader(self) -> Iterator[list[str]]:
        assert self._files.file is not None
        texts = map(bytes.decode, self._files.file)
        return csv.reader(texts, delimiter=self._delimiter, strict=True)

    def _events_of(self, rows: list[list[str]]) -> list[Any]:
        names = self._names
        events: list[Any] = [dict(zip(names, row, strict=True)) for row in rows if row]
        for name, converted in self._converters.items():
            for event in events:
                event[name] = converted(event[name])
        if self.event_type is not None:
            events = [msgspec.convert(event, self.event_type, strict=False) for event in events]
        return events

    def _read_up_to_fault(self, offset: int) -> list[Any]:
        """Return what is before the first bad row, and come back to it with the next reading."""
        self._go_to(offset)
        events: list[Any] = []
        while True:
            before = self._files.offset
            try:
                events += self._next_event()
                self._files.note_offset()
            except StopIteration:
                return events
            except Exception as error:
                if events:
                    self._go_to(before)
                    return events
                self._files.note_offset()
                self._go_to(self._files.offset)
                path = self._files.path
                raise ValueError(f"{path}:{line_number(path, before)}: {error}") from error

    def _next_event(self) -> list[Any]:
        row = next(self._rows)
        if row and len(row) != len(self._names):
            names = ", ".join(self._names)
            raise ValueError(f"found {len(row)} fields; expected {len(self._names)}: {names}")
        return self._events_of([row])
