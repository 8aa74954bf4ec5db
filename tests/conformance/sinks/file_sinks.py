"""All sinks that write files, wherever that is, and how their output is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from long_runs import IS_LONG
from shunter.flow.location import Location
from shunter.flow.manifest import manifest_of
from shunter.flow.sinks import WriteCsv, WriteDelta, WriteJsonLines, WriteParquet
from shunter.flow.sinks.delta_table import DeltaLog

Row = dict[str, Any]


@dataclass(frozen=True)
class FileCase:
    """A sink, and how somebody reads what it has written: the numbers in it, in any order."""

    name: str
    make: Callable[..., Any]
    read: Callable[[Location], list[int]]

    def __str__(self) -> str:
        return self.name


def _files(target: Location) -> list[Location]:
    """Name what counts in an output: a file, or those that a reader of the folder would take."""
    if target.is_file():
        return [target]
    if not target.renames and (manifest := manifest_of(target)) is not None:
        return [target / name for name in manifest.files]
    if not target.renames:
        return []
    found = [info.location for info in target.files(recursive=True)]
    return [each for each in found if not each.name.startswith(("_", "."))]


def _parquet(target: Location) -> list[int]:
    tables = [pq.ParquetFile(pa.BufferReader(each.read())).read() for each in _files(target)]
    return sorted(n for table in tables for n in table["n"].to_pylist())


def _lines(target: Location) -> list[int]:
    bodies = [each.read() for each in _files(target)]
    texts = [gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for body in bodies]
    return sorted(json.loads(line)["n"] for text in texts for line in text.splitlines())


def _csv(target: Location) -> list[int]:
    texts = [each.read().decode() for each in _files(target)]
    return sorted(int(row["n"]) for text in texts for row in csv.DictReader(io.StringIO(text)))


def _delta(target: Location) -> list[int]:
    log = DeltaLog(target)
    if not log.exists:
        return []
    table = DeltaTable(target.url, storage_options=log._storage)
    return sorted(pa.table(table.to_pyarrow_table())["n"].to_pylist())


FILE_CASES = [
    FileCase("parquet", WriteParquet, _parquet),
    FileCase("json lines", WriteJsonLines, _lines),
    FileCase("json lines, gzip", lambda p: WriteJsonLines(p, compression="gzip"), _lines),
    FileCase("csv", WriteCsv, _csv),
    FileCase("delta", WriteDelta, _delta),
]


EVERYWHERE = [
    pytest.param(case, place, id=f"{place}-{case}")
    for case in FILE_CASES
    for place in ("disk", "hdfs", "s3")
    # deltalake brings its own file systems, and HDFS is none of them. What is compressed is so
    # before it gets anywhere.
    if (case.name, place) != ("delta", "hdfs")
    and (place == "disk" or "gzip" not in case.name or IS_LONG)
]
"""Each sink in each place: what a test takes as `case` and, indirectly, as `target`."""


def rows(first: int, end: int) -> list[Row]:
    return [{"n": n, "text": f"n{n}"} for n in range(first, end)]
