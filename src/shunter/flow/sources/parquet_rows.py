"""Events from Parquet files, read one row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.sources.arrow_rows import events_of
from shunter.flow.sources.files import SourcePart, Where, check_same, digest, found_files


class RowGroup(NamedTuple):
    path: str
    number: int


class ParquetFiles(NamedTuple):
    """Files with the same columns; those to read of them, and how many rows there are."""

    paths: list[str]
    columns: list[str]
    rows: int
    schema: Any


class ParquetRows:
    """The rows of a file, of a folder's `*.parquet`, of a pattern's files, or of several of these.

    A row becomes a dict, or with `type` an object of a dataclass or msgspec Struct. `columns`
    are those to read, all where nothing is said. Several workers share row groups. The position
    is the number of a row group, counted through all files, and that of a row in it.
    """

    def __init__(
        self,
        where: Where,
        *,
        columns: Sequence[str] | None = None,
        type: Any = None,  # noqa: A002
    ) -> None:
        self._where, self.event_type = where, type
        self._columns = None if columns is None else list(columns)
        self._share = SourcePart()
        self._groups: list[RowGroup] = []
        self._index, self._row, self._digest = -1, 0, ""
        self._path = ""
        self._file: Any = None
        self._table: Any = ()
        self._batches: Iterator[Any] = iter(())

    def part(self, index: int, count: int) -> ParquetRows:
        part = ParquetRows(self._where, columns=self._columns, type=self.event_type)
        part._share = SourcePart(index, count)
        return part

    def alike(self) -> ParquetFiles | None:
        """Return its files for others that read them; None where these would not read the same."""
        parquet, paths = arrow("pyarrow.parquet"), found_files(self._where, ".parquet")
        footers = [parquet.read_metadata(path) for path in paths]
        schemas = [footer.schema.to_arrow_schema() for footer in footers]
        if not schemas or any(schema != schemas[0] for schema in schemas):
            return None
        if any(_is_in_nanoseconds(kind) for kind in schemas[0].types):
            return None
        rows = sum(footer.num_rows for footer in footers)
        return ParquetFiles(paths, self._columns or schemas[0].names, rows, schemas[0])

    def open(self, position: Any | None) -> None:
        groups = []
        for path in found_files(self._where, ".parquet"):
            self._open_file(path)
            groups += [RowGroup(path, number) for number in range(self._file.num_row_groups)]
        self._groups = self._share.of(groups)
        self._index, self._row, self._digest = -1, 0, digest([])
        self._table = ()
        if position is not None:
            index, row, expected = position
            check_same(self._groups, index, expected, self._where)
            if index >= 0:
                self._begin(index, row)

    def read(self, limit: int) -> list[Any] | None:
        while self._row >= len(self._table):
            if self._index + 1 >= len(self._groups):
                return None
            self._begin(self._index + 1, 0)
        some = self._table.slice(self._row, limit)
        self._row += len(some)
        return [row for batch in some.to_batches() for row in events_of(batch, self.event_type)]

    def read_batch(self, limit: int) -> Any | None:
        """Read rows as a batch of Arrow's, of a row group never more; None is for the end.

        It is for who reads from the first row to the last, for it knows of no position.
        """
        while (batch := next(self._batches, None)) is None:
            if self._index + 1 >= len(self._groups):
                return None
            self._index += 1
            path, number = self._groups[self._index]
            self._open_file(path)
            self._batches = self._file.iter_batches(
                limit, row_groups=[number], columns=self._columns, use_threads=False
            )
        return batch

    def position(self) -> Any:
        return [self._index, self._row, self._digest]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._path, self._table = None, "", ()

    def _begin(self, index: int, row: int) -> None:
        path, number = self._groups[index]
        self._open_file(path)
        self._table = self._file.read_row_group(number, columns=self._columns)
        self._index, self._row = index, row
        self._digest = digest(self._groups[: index + 1])

    def _open_file(self, path: str) -> None:
        if path == self._path:
            return
        self.close()
        try:
            self._file = arrow("pyarrow.parquet").ParquetFile(path)
        except (OSError, arrow().ArrowException) as error:
            raise FlowError(
                f"{path}: can't be read as Parquet: {error}; mend or remove it"
            ) from error
        self._path = path
        names = self._file.schema_arrow.names
        if missing := [name for name in self._columns or () if name not in names]:
            raise FlowError(f"{path}: there is no column {missing[0]!r}; it has {', '.join(names)}")


def _is_in_nanoseconds(kind: Any) -> bool:
    return bool(arrow("pyarrow.types").is_timestamp(kind)) and kind.unit == "ns"
