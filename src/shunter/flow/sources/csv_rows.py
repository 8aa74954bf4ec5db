"""Events from CSV files whose first line has the names of the columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.sources.file_source import FileSource
from shunter.flow.sources.files import ByteRange, SourceFile, Where
from shunter.flow.sources.line_files import LineFiles
from shunter.flow.sources.port import RAW_LETTERS, BadInput, WithBadInput, bad_input
from shunter.flow.sources.splits import packed

_BYTE_ORDER_MARK = "\ufeff"


class CsvRows(FileSource[ByteRange]):
    """The rows of a file, of a folder's `*.csv`, of a pattern's files, or of several of these.

    A row becomes a dict of texts. `converters` are functions for single columns, such as
    `{"age": int}`; with `type`, a dataclass or msgspec Struct, texts become what its fields are.
    A row that does not fit is a bad event that names file and line. Several workers share whole
    files, for a quoted text may go over lines. `follow` is as with JsonLines.
    """

    suffix = ".csv"

    def __init__(
        self,
        where: Where,
        *,
        converters: Mapping[str, Callable[[str], Any]] | None = None,
        type: Any = None,  # noqa: A002
        delimiter: str = ",",
        follow: bool = False,
    ) -> None:
        super().__init__(where, follow=follow)
        self.event_type, self._delimiter = type, delimiter
        self._converters = dict(converters or {})
        self._files: LineFiles
        self._names: list[str] = []
        self._rows: Iterator[list[str]] | None = None

    def open(self, position: Any | None) -> None:
        self._files = LineFiles(self._pieces(), position)
        self._rows = None
        if self._files.file is not None:
            self._begin_file(self._files.offset)

    def position(self) -> Any:
        return self._files.position

    def close(self) -> None:
        self._files.close()
        self._rows = None

    def _some(self, limit: int) -> list[Any] | None:
        if self._rows is None:
            return None
        before = self._files.offset
        try:
            rows = list(islice(self._rows, limit))
            events = self._events_of(rows)
        except Exception:
            return self._one_by_one(before, limit)
        if not rows:
            return None
        self._files.note_offset()
        return events

    def _begin_next(self) -> bool:
        is_there = self._files.begin_next()
        if is_there:
            self._begin_file(0)
        else:
            self._rows = None
        return is_there

    def _begin_file(self, offset: int) -> None:
        """Read the names of the columns, and go to the offset if it is behind them."""
        self._files.go_to(0)
        try:
            names = next(self._reader(), [])
        except (ValueError, csv.Error) as error:
            raise FlowError(
                f"{self._files.url}:1: the names of the columns can't be read: {error}; mend it"
            ) from None
        self._names = [name.removeprefix(_BYTE_ORDER_MARK) for name in names]
        if names and (missing := [name for name in self._converters if name not in self._names]):
            raise FlowError(
                f"{self._files.url}: there is no column {missing[0]!r} to convert; it has "
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

    def _one_by_one(self, offset: int, limit: int) -> list[Any] | None:
        """Read rows of which some are bad.

        Behind one that can't be parsed, reading goes on with the next line: a quote that is never
        closed costs its own line, and not the rest of the file.
        """
        self._go_to(offset)
        events, is_at_end = WithBadInput(), False
        while len(events) < limit and not is_at_end:
            before = self._files.offset
            try:
                assert self._rows is not None
                row = next(self._rows, None)
                self._files.note_offset()
            except (csv.Error, UnicodeDecodeError) as error:
                events.append(self._bad(before, self._files.line_behind(before), error))
                continue
            try:
                is_at_end = row is None
                events += self._event_of(row) if row else ()
            except Exception as error:
                events.append(self._bad(before, self._files.offset, error))
        return events or (None if is_at_end else events)

    def _event_of(self, row: list[str]) -> list[Any]:
        if len(row) != len(self._names):
            names = ", ".join(self._names)
            raise ValueError(f"found {len(row)} fields; expected {len(self._names)}: {names}")
        return self._events_of([row])

    def _bad(self, start: int, end: int, error: Exception) -> BadInput:
        number = self._files.line_at(start)
        raw = self._files.bytes_at(start, min(end - start, 4 * RAW_LETTERS))
        self._go_to(end)
        return bad_input(f"{self._files.url}:{number}", error, raw)

    def _cut(self, files: list[SourceFile], target: int, open_bytes: int) -> list[list[ByteRange]]:
        whole = [(ByteRange(file.url), file.size) for file in files]
        return packed(whole, target, open_bytes)

    def _pieces_in(self, files: list[SourceFile]) -> list[ByteRange]:
        return [ByteRange(file.url) for file in self._share.of(files)]

    def _whole(self, url: str) -> ByteRange:
        return ByteRange(url)
