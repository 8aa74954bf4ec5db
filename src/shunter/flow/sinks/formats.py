"""How events become the bytes of a file: Parquet, lines of JSON, CSV.

A format is a value that goes to executors; `writer` begins a file.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.sinks.parts import unified
from shunter.flow.sinks.records import columns_of, records_of

CELLS_AT_ONCE = 1_000_000
ROWS_AT_ONCE = 100_000
"""How many rows become a row group, unless they have so many columns that fewer do."""

LINE_COMPRESSIONS = (None, "gzip", "zstd")
PARQUET_COMPRESSIONS = (None, "snappy", "zstd", "gzip", "lz4", "brotli")


class FileWriter(Protocol):
    """One file that is being written. `schema` is what is known of columns, None if it has none."""

    rows: int
    schema: Any

    def write(self, events: Sequence[Any]) -> Sequence[Any]:
        """Take events; return those that go into a next file, because it has other columns."""

    def flush(self) -> Sequence[Any]:
        """Write what waits; return what goes into a next file."""

    def close(self) -> bytes:
        """End the file; return the schema of the columns in it."""


class Format(Protocol):
    """How files are written."""

    @property
    def suffix(self) -> str:
        """How their names end."""

    def writer(self, file: BinaryIO, schema: Any) -> FileWriter:
        """Begin a file; `schema` is what is known of the columns so far."""


# ---- Parquet


@dataclass(frozen=True)
class ParquetFormat:
    """`schema` is the user's; without one, columns have the types of the values in them."""

    path: str
    schema: Any = None
    compression: str | None = "snappy"
    suffix: str = ".parquet"

    def writer(self, file: BinaryIO, schema: Any) -> ParquetWriter:
        return ParquetWriter(self, file, self.schema if self.schema is not None else schema)


class ParquetWriter:
    """Rows are kept until they make a row group. A column that comes later ends the file."""

    def __init__(self, form: ParquetFormat, file: BinaryIO, schema: Any) -> None:
        self._format, self._file = form, file
        self.schema = arrow().schema([]) if schema is None else schema
        self._events: list[Any] = []
        self._writer: Any = None
        self.rows = 0

    def write(self, events: Sequence[Any]) -> Sequence[Any]:
        self._events += events
        columns = max(1, len(columns_of(self._events[:1])))
        if len(self._events) >= min(ROWS_AT_ONCE, max(1, CELLS_AT_ONCE // columns)):
            return self.flush()
        return ()

    def close(self) -> bytes:
        if self._writer is None:
            return bytes(self.schema.serialize())
        self._writer.close()
        return bytes(self._writer.schema.serialize())

    def write_batch(self, batch: Any) -> None:
        """Write a batch of Arrow's as it is."""
        self._write_table(arrow().Table.from_batches([batch]))

    def flush(self) -> Sequence[Any]:
        events, self._events = self._events, []
        if not events:
            return ()
        table = self._table_of(events)
        if self._writer is not None and self._writer.schema != table.schema:
            self.schema = unified([self._writer.schema, table.schema])
            return events
        self._write_table(table)
        return ()

    def _write_table(self, table: Any) -> None:
        if self._writer is None:
            parquet = arrow("pyarrow.parquet")
            compression = self._format.compression or "none"
            self._writer = parquet.ParquetWriter(self._file, table.schema, compression=compression)
        self.schema = table.schema
        self._writer.write_table(table)
        self.rows += table.num_rows

    def _table_of(self, events: list[Any]) -> Any:
        pyarrow, given = arrow(), self._format.schema
        try:
            columns = columns_of(events)
            if given is not None:
                nothing = [None] * len(events)
                arrays = [pyarrow.array(columns.get(f.name, nothing), f.type) for f in given]
                return pyarrow.Table.from_arrays(arrays, schema=given)
            known = {field.name: field.type for field in self.schema}
            for name in known:
                columns.setdefault(name, [None] * len(events))
            names = dict.fromkeys([*known, *columns])
            return pyarrow.table({name: _array(columns[name], known.get(name)) for name in names})
        except (pyarrow.ArrowException, TypeError, OverflowError) as error:
            raise FlowError(
                f"{self._format.path}: events don't fit the columns ({error}); pass "
                "schema=pyarrow.schema([…]), or map them"
            ) from error


def _array(values: list[Any], known: Any) -> Any:
    """Return a column; one that is known keeps its type, and a whole number may become a float."""
    pyarrow = arrow()
    if known is None or known == pyarrow.null():
        return pyarrow.array(values)
    try:
        return pyarrow.array(values, known)
    except (pyarrow.ArrowException, TypeError, OverflowError):
        found = pyarrow.array(values)
        types = arrow("pyarrow.types")
        if types.is_integer(known) and types.is_floating(found.type):
            return found
        raise


# ---- lines


@dataclass(frozen=True)
class JsonLinesFormat:
    path: str
    compression: str | None = None

    @property
    def suffix(self) -> str:
        return ".jsonl" + _SUFFIXES[self.compression]

    def writer(self, file: BinaryIO, schema: Any) -> JsonLinesWriter:
        return JsonLinesWriter(self.path, _compressed(file, self.compression))


class JsonLinesWriter:
    def __init__(self, path: str, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._encoder = msgspec.json.Encoder()
        self.rows, self.schema = 0, None

    def write(self, events: Sequence[Any]) -> Sequence[Any]:
        self._file.write(encoded_lines(self._encoder, events, self._path))
        self.rows += len(events)
        return ()

    def flush(self) -> Sequence[Any]:
        return ()

    def close(self) -> bytes:
        self._file.close()
        return b""


def encoded_lines(encoder: msgspec.json.Encoder, events: Sequence[Any], path: str) -> bytes:
    try:
        return encoder.encode_lines(events)
    except TypeError as error:
        raise FlowError(
            f"{path}: {error}; map events to plain values, dataclasses or structs"
        ) from error


@dataclass(frozen=True)
class CsvFormat:
    """`columns` are the fields to write; those of the first event if there are none."""

    path: str
    columns: tuple[str, ...] | None = None
    delimiter: str = ","
    compression: str | None = None
    escapes_formulas: bool = False

    @property
    def suffix(self) -> str:
        return ".csv" + _SUFFIXES[self.compression]

    def writer(self, file: BinaryIO, schema: Any) -> CsvWriter:
        return CsvWriter(CsvText(self), _compressed(file, self.compression))


class CsvWriter:
    def __init__(self, text: CsvText, file: BinaryIO) -> None:
        self._text, self._file = text, file
        self.rows, self.schema = 0, None
        self._file.write(text.header())

    def write(self, events: Sequence[Any]) -> Sequence[Any]:
        self._file.write(self._text.of(events))
        self.rows += len(events)
        return ()

    def flush(self) -> Sequence[Any]:
        return ()

    def close(self) -> bytes:
        self._file.close()
        return b""


class CsvText:
    """Makes rows of text; `columns` are known from the first event on."""

    def __init__(self, form: CsvFormat, columns: list[str] | None = None) -> None:
        self._format = form
        self.columns = columns

    def header(self) -> bytes:
        """Return the first line, if the columns were given."""
        if self.columns is not None or self._format.columns is None:
            return b""
        self.columns = list(self._format.columns)
        return self._encoded([self.columns])

    def of(self, events: Sequence[Any]) -> bytes:
        records = records_of(events)
        head = b""
        if records and self.columns is None:
            self.columns = list(records[0])
            head = self._encoded([self.columns])
        columns = self.columns or []
        try:
            rows = [[record[name] for name in columns] for record in records]
        except KeyError as error:
            raise self._fault(f"an event has no {error}") from None
        if self._format.columns is None and any(len(record) > len(columns) for record in records):
            raise self._fault("an event has more fields than the first one")
        return head + self._encoded(rows)

    def _encoded(self, rows: list[list[Any]]) -> bytes:
        if self._format.escapes_formulas:
            rows = [[_harmless_cell(cell) for cell in row] for row in rows]
        lines = _Lines()
        csv.writer(lines, delimiter=self._format.delimiter, lineterminator="\r\n").writerows(rows)
        return "".join(lines).encode()

    def _fault(self, fact: str) -> FlowError:
        columns = ", ".join(self.columns or [])
        return FlowError(
            f"{self._format.path}: {fact}, and its columns are {columns}; name them with "
            "columns=…, and give each event all of them"
        )


class _Lines(list[str]):
    """Rows as text. Only what is in its own line ends does the library put into quotes, so it is
    told of both, and the ends are then made short."""

    def write(self, row: str) -> None:
        self.append(f"{row[:-2]}\n")


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBERS = (bool, int, float, Decimal, type(None))


def _harmless_cell(cell: Any) -> Any:
    """Return what a spreadsheet shows and does not compute: text that begins so, behind a '."""
    if isinstance(cell, _NUMBERS):
        return cell
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else cell


_SUFFIXES = {None: "", "gzip": ".gz", "zstd": ".zst"}


def _compressed(file: BinaryIO, compression: str | None) -> BinaryIO:
    if compression == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="wb", mtime=0))
    if compression == "zstd":
        return cast(BinaryIO, arrow().CompressedOutputStream(file, "zstd"))
    return _Kept(file)  # type: ignore[return-value]


class _Kept:
    """A file that its owner closes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def close(self) -> None:
        return


def checked_compression(given: str | None, known: Sequence[str | None], sink: str) -> str | None:
    """Return a compression if the format has it, or raise a FlowError."""
    if given not in known:
        names = ", ".join(repr(name) for name in known)
        raise FlowError(f"{sink}: compression is {given!r}; say one of {names}")
    return given
