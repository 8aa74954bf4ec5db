"""All public sources, each with a function that makes one of a place, and the events it then has.

What needs a server of its own is tested where that server is, and named in ELSEWHERE.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from long_runs import IS_LONG
from shunter.flow.location import Location
from shunter.flow.sources import (
    CsvRows,
    Items,
    JsonLines,
    ParquetRows,
    SqliteRows,
    TextLines,
    Ticks,
)

COUNT = 60
PER_FILE = 20

ELSEWHERE = {
    "FinishedJobs": "tests/system/flow/test_job_io.py",
    "JobHistory": "tests/system/spark/test_job_history.py",
    "MongoDocuments": "tests/system/flow/test_mongo_io.py",
    "Watermarked": "tests/unit/flow/test_aggregates.py",
}

NO_SOURCES = {"BadInput", "Source", "WithBadInput", "as_source"}


class Row(msgspec.Struct):
    n: int
    text: str


@dataclass
class Number:
    n: int


class SourceCase(NamedTuple):
    """`make` puts files into a place and returns a source of them; `events` is what it has."""

    source: str
    make: Callable[[Location], Any]
    events: list[Any]
    has_files: bool = True
    has_bad: bool = False


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"n": n, "text": f"line {n} ü"} for n in range(start, start + count)]


ALL = rows(0, COUNT)


def _put(place: Location, name: str, body: bytes) -> None:
    with (place / name).create() as file:
        file.write(body)


def json_files(place: Location) -> Location:
    for start in range(0, COUNT, PER_FILE):
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows(start, PER_FILE))
        _put(place, f"{start:03}.jsonl", lines)
    return place


def text_files(place: Location) -> Location:
    for start in range(0, COUNT, PER_FILE):
        _put(
            place, f"{start:03}.log", "\r\n".join(r["text"] for r in rows(start, PER_FILE)).encode()
        )
    return place


def csv_files(place: Location) -> Location:
    for start in range(0, COUNT, PER_FILE):
        lines = "".join(f'{r["n"]},"{r["text"]}"\n' for r in rows(start, PER_FILE))
        _put(place, f"{start:03}.csv", f"n,text\n{lines}".encode())
    return place


def parquet_files(place: Location) -> Location:
    for start in range(0, COUNT, PER_FILE):
        body = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows(start, PER_FILE)), body, row_group_size=7)
        _put(place, f"{start:03}.parquet", body.getvalue())
    return place


def bad_json(place: Location) -> Location:
    _put(json_files(place), "010.jsonl", b'{"n": 1}\nno JSON\n[1]\n')
    return place


def bad_text(place: Location) -> Location:
    _put(text_files(place), "010.log", b"good\n\xff\xfe\n")
    return place


def bad_csv(place: Location) -> Location:
    _put(csv_files(place), "010.csv", b'n,text\nmany,"a\nb"\n1\n7,ok\n')
    return place


def bad_parquet(place: Location) -> Location:
    table = pa.table({"n": [7, None, 8], "text": ["a", "b", "c"]})
    body = io.BytesIO()
    pq.write_table(table, body)
    _put(parquet_files(place), "010.parquet", body.getvalue())
    return place


def sqlite_table(place: Location) -> Path:
    path = place.path / "rows.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO rows VALUES (:n, :text)", ALL)
    database.close()
    return path


def typed() -> list[Any]:
    return [Row(**row) for row in ALL]


def among(events: list[Any], good: list[Any], bad: list[tuple[str, str]]) -> list[Any]:
    """Return events with those of a second file behind the first; bad ones as (where, raw)."""
    return [*events[:PER_FILE], *good, *bad, *events[PER_FILE:]]


CASES = {
    "items": SourceCase("Items", lambda _: Items(list(range(COUNT))), list(range(COUNT)), False),
    "ticks": SourceCase(
        "Ticks",
        lambda _: Ticks(1, limit=COUNT, clock=Clock()),
        [{"tick": n, "time": float(n)} for n in range(1, COUNT + 1)],
        False,
    ),
    "sqlite rows": SourceCase(
        "SqliteRows", lambda place: SqliteRows(sqlite_table(place), "rows", by="n"), ALL, False
    ),
    "json lines": SourceCase("JsonLines", lambda place: JsonLines(json_files(place)), ALL),
    "json lines of a pattern": SourceCase(
        "JsonLines", lambda place: JsonLines(str(json_files(place) / "0*.jsonl")), ALL
    ),
    "typed json lines": SourceCase(
        "JsonLines", lambda place: JsonLines(json_files(place), type=Row), typed()
    ),
    "json lines with bad ones": SourceCase(
        "JsonLines",
        lambda place: JsonLines(bad_json(place), type=Row),
        among(
            typed(),
            [],
            [
                ("010.jsonl:1", '{"n": 1}'),
                ("010.jsonl:2", "no JSON"),
                ("010.jsonl:3", "[1]"),
            ],
        ),
        has_bad=True,
    ),
    "text lines": SourceCase(
        "TextLines", lambda place: TextLines(text_files(place)), [row["text"] for row in ALL]
    ),
    "text lines with bad ones": SourceCase(
        "TextLines",
        lambda place: TextLines(bad_text(place)),
        among([row["text"] for row in ALL], ["good"], [("010.log:2", "\ufffd\ufffd")]),
        has_bad=True,
    ),
    "csv rows": SourceCase("CsvRows", lambda place: CsvRows(csv_files(place), type=Row), typed()),
    "csv rows with bad ones": SourceCase(
        "CsvRows",
        lambda place: CsvRows(bad_csv(place), type=Row),
        [
            *typed()[:PER_FILE],
            ("010.csv:2", 'many,"a\nb"'),
            ("010.csv:4", "1"),
            Row(7, "ok"),
            *typed()[PER_FILE:],
        ],
        has_bad=True,
    ),
    "parquet rows": SourceCase("ParquetRows", lambda place: ParquetRows(parquet_files(place)), ALL),
    "typed parquet rows": SourceCase(
        "ParquetRows",
        lambda place: ParquetRows(parquet_files(place), type=Number),
        [Number(n) for n in range(COUNT)],
    ),
    "parquet rows of a filter": SourceCase(
        "ParquetRows",
        lambda place: ParquetRows(
            parquet_files(place), where=[("n", ">", 10), ("n", "<=", 45)], columns=["text"]
        ),
        [{"text": row["text"]} for row in ALL[11:46]],
    ),
    "parquet rows of an expression": SourceCase(
        "ParquetRows",
        lambda place: (
            ParquetRows(parquet_files(place), where=pc.field("n") % 2 == 0)
            if hasattr(pc.Expression, "__mod__")
            else ParquetRows(parquet_files(place), where=pc.bit_wise_and(pc.field("n"), 1) == 0)
        ),
        ALL[::2],
    ),
    "parquet rows with bad ones": SourceCase(
        "ParquetRows",
        lambda place: ParquetRows(bad_parquet(place), type=Row),
        [
            *typed()[:PER_FILE],
            Row(7, "a"),
            ("010.parquet: row group 0, row 1", "{'n': None, 'text': 'b'}"),
            Row(8, "c"),
            *typed()[PER_FILE:],
        ],
        has_bad=True,
    ),
}


ON_S3 = (
    "json lines of a pattern",
    "json lines with bad ones",
    "text lines",
    "csv rows with bad ones",
    "parquet rows",
    "parquet rows of a filter",
)
"""A place decides how bytes come in, and nothing behind that: so these are one for each way in."""


def places_of(name: str) -> tuple[str, ...]:
    """Say where the files of a case are put; with SHUNTER_LONG=1 all are on S3 too."""
    is_on_s3 = name in ON_S3 or (IS_LONG and CASES[name].has_files)
    return ("disk", "s3") if is_on_s3 else ("disk",)


class Clock:
    """Time begins at 0, and then all is due."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        now, self._now = self._now, 1e6
        return now
