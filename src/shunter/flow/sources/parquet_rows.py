"""Events from Parquet files, read some rows of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import msgspec

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.location import Location
from shunter.flow.sources.arrow_rows import events_of
from shunter.flow.sources.file_source import FileSource
from shunter.flow.sources.files import SourceFile, Where, found_files
from shunter.flow.sources.parquet_files import ParquetReader, RowGroups, as_expression, footers_of
from shunter.flow.sources.pieces import Pieces
from shunter.flow.sources.splits import packed


class ParquetFiles(NamedTuple):
    """Files with the same columns; those to read of them, and how many rows there are."""

    paths: list[str]
    columns: list[str]
    rows: int
    schema: Any


class ParquetRows(FileSource[RowGroups]):
    """The rows of a file, of a folder's `*.parquet`, of a pattern's files, or of several of these.

    A row becomes a dict, or with `type` an object of a dataclass or msgspec Struct; one that does
    not fit the type is a bad event. `columns` are those to read: by default the fields
    of the type, or all. `where` is a filter, as an expression of pyarrow's or as a list of
    (column, sign, value): row groups that can't have such rows are not read. Several workers share
    row groups. `follow` is as with JsonLines.
    """

    suffix = ".parquet"

    def __init__(
        self,
        path: Where,
        *,
        columns: Sequence[str] | None = None,
        where: Any = None,
        type: Any = None,  # noqa: A002
        follow: bool = False,
    ) -> None:
        super().__init__(path, follow=follow)
        self.event_type = type
        self._columns = None if columns is None else list(columns)
        self._filter = where
        self._known: tuple[list[SourceFile], ParquetFiles | None] | None = None
        self._queue: Pieces[RowGroups]
        self._reader: ParquetReader | None = None
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = None
        self._group = self._row = self._taken = 0

    def alike(self) -> ParquetFiles | None:
        """Return its files for others that read them; None where these would not read the same."""
        if self._filter is not None or self._follow:
            return None
        files = found_files(self._places, self.suffix)
        if any(Location(file.url).scheme not in ("file", "hdfs") for file in files):
            return None
        if self._known is None or self._known[0] != files:
            self._known = files, self._alike(files)
        return self._known[1]

    def _alike(self, files: list[SourceFile]) -> ParquetFiles | None:
        footers = footers_of([file.url for file in files])
        schemas = [footer.schema.to_arrow_schema() for footer in footers]
        if not schemas or any(schema != schemas[0] for schema in schemas):
            return None
        if any(_is_in_nanoseconds(kind) for kind in schemas[0].types):
            return None
        rows = sum(footer.num_rows for footer in footers)
        names = self._wanted(schemas[0].names) or schemas[0].names
        return ParquetFiles([file.url for file in files], names, rows, schemas[0])

    def open(self, position: Any | None) -> None:
        self._queue = self._pieces()
        self._let_go()
        if position is None:
            self._begin_next()  # what is wrong with the first file is said at once
        else:
            mark, group, row = position
            piece = self._queue.resume(mark)
            if piece is not None:
                self._begin(piece, group, row)

    def read_batch(self, limit: int) -> Any | None:
        """Read rows as a batch of Arrow's, of a row group never more; None is for the end."""
        while (some := self._rows(limit)) is None:
            if not self._begin_next():
                return None
        return some

    def position(self) -> Any:
        return [self._queue.mark, self._group, self._row]

    def close(self) -> None:
        self._let_go()

    # ---- reading

    def _begin_next(self) -> bool:
        piece = self._queue.next()
        if piece is not None:
            self._begin(piece, 0, 0)
        return piece is not None

    def _some(self, limit: int) -> list[Any] | None:
        some = self._rows(limit)
        if some is None:
            return None
        first = self._row - some.num_rows
        return events_of(some, self.event_type, lambda index: self._place(first + index))

    def _rows(self, limit: int) -> Any | None:
        """Return the next rows of this piece as a batch of Arrow's; None at its end."""
        while self._batch is None or self._taken >= self._batch.num_rows:
            if self._reader is None:
                return None
            self._batch, self._taken = next(self._batches, None), 0
            if self._batch is None:
                if self._group + 1 >= len(self._reader.groups):
                    self._let_go(self._group, self._row)
                    return None
                self._begin_group(self._group + 1, 0)
        some = self._batch.slice(self._taken, limit)
        self._taken += some.num_rows
        self._row += some.num_rows
        return some

    def _place(self, row: int) -> str:
        assert self._reader is not None
        return f"{self._reader.url}: row group {self._reader.groups[self._group]}, row {row}"

    def _begin(self, piece: RowGroups, group: int, row: int) -> None:
        self._let_go()
        self._reader = ParquetReader(piece, as_expression(self._filter))
        names = self._reader.names
        if missing := [name for name in self._columns or () if name not in names]:
            raise FlowError(
                f"{piece.url}: there is no column {missing[0]!r}; it has {', '.join(names)}"
            )
        if self._reader.groups:
            self._begin_group(group, row)

    def _begin_group(self, group: int, row: int) -> None:
        assert self._reader is not None
        self._group, self._row = group, row
        if group < len(self._reader.groups):
            wanted = self._wanted(self._reader.names)
            self._batches = self._reader.batches(self._reader.groups[group], wanted, row)
        self._batch, self._taken = None, 0

    def _let_go(self, group: int = 0, row: int = 0) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._batch, self._batches = None, None, iter(())
        self._group, self._row, self._taken = group, row, 0

    def _wanted(self, names: Sequence[str]) -> list[str] | None:
        """Name the columns to read; None is all of them."""
        if self._columns is not None:
            return self._columns
        own = _fields_of(self.event_type)
        wanted = [name for name in names if name in own]
        return wanted or None

    # ---- parts and splits

    def _cut(self, files: list[SourceFile], target: int, open_bytes: int) -> list[list[RowGroups]]:
        """Put row groups together; only of files that may be cut the footers are read."""
        large = [file.url for file in files if file.size > target]
        footers = dict(zip(large, footers_of(large), strict=True))
        pieces: list[tuple[RowGroups, int]] = []
        for file in files:
            footer = footers.get(file.url)
            if footer is None:
                pieces.append((RowGroups(file.url), file.size))
                continue
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
                pieces.append((RowGroups(file.url, (number,)), size))
        return [_merged(split) for split in packed(pieces, target, open_bytes)]

    def _pieces_in(self, files: list[SourceFile]) -> list[RowGroups]:
        urls = [file.url for file in files]
        if self._share.count == 1:
            return [self._whole(url) for url in urls]
        groups = [
            RowGroups(url, (number,))
            for url, footer in zip(urls, footers_of(urls), strict=True)
            for number in range(footer.num_row_groups)
        ]
        return self._share.of(groups)

    def _whole(self, url: str) -> RowGroups:
        return RowGroups(url)


def _merged(pieces: list[RowGroups]) -> list[RowGroups]:
    """Take neighbouring row groups of one file together, so that it is opened once."""
    merged: list[RowGroups] = []
    for piece in pieces:
        if merged and piece.numbers and merged[-1].numbers and merged[-1].url == piece.url:
            merged[-1] = RowGroups(piece.url, (*merged[-1].numbers, *piece.numbers))
        else:
            merged.append(piece)
    return merged


def _fields_of(kind: Any) -> frozenset[str]:
    """Name the columns that a type takes; none where it may look at all of them."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        is_open = not config.forbid_unknown_fields and not config.tag
        return frozenset(kind.__struct_encode_fields__) if is_open else frozenset()
    return frozenset(each.name for each in fields(kind)) if is_dataclass(kind) else frozenset()


def _is_in_nanoseconds(kind: Any) -> bool:
    return bool(arrow("pyarrow.types").is_timestamp(kind)) and kind.unit == "ns"
