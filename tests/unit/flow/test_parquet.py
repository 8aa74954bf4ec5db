"""Parquet: row groups are read in parts and from any row; a folder is published as a whole."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.sinks import WriteParquet, formats
from shunter.flow.sources import ParquetRows, Source
from unit.flow.io_steps import (
    all_of,
    carried,
    limits,
    read_with_a_stop,
    write_all,
    write_with_a_kill,
)

sizes_of_files = st.lists(st.integers(0, 20), min_size=1, max_size=3)


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"number": n, "text": f"n{n}" if n % 3 else None} for n in range(first, first + count)]


def write_files(folder: Path, files: list[int], group: int) -> list[dict[str, Any]]:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    written: list[dict[str, Any]] = []
    for number, count in enumerate(files):
        new = rows(count, len(written))
        table = pa.Table.from_pylist(new, schema=schema)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
        written += new
    return written


@settings(max_examples=40)
@given(
    files=sizes_of_files, group=st.integers(1, 8), sizes=limits, batches=st.integers(0, 12),
    count=st.integers(1, 4),
)  # fmt: skip
def test_rows_are_read_from_any_position_and_in_any_number_of_parts(
    files: list[int], group: int, sizes: list[int], batches: int, count: int
) -> None:
    with TemporaryDirectory() as folder:
        expected = write_files(Path(folder), files, group)
        assert all_of(ParquetRows(folder), sizes) == expected
        assert read_with_a_stop(lambda: ParquetRows(folder), sizes, batches) == expected
        found = []
        for index in range(count):

            def part(index: int = index) -> Source:
                return ParquetRows(folder).part(index, count)

            found += read_with_a_stop(part, sizes, batches)
    assert sorted(found, key=lambda row: row["number"]) == expected


@dataclass
class Row:
    number: int


def test_columns_are_chosen_and_rows_become_objects(tmp_path: Path) -> None:
    write_files(tmp_path, [2], 10)

    assert all_of(ParquetRows(tmp_path, columns=["number"])) == [{"number": 0}, {"number": 1}]
    assert all_of(ParquetRows(tmp_path, type=Row)) == [Row(0), Row(1)]


def test_what_can_not_be_read_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, [2], 10)
    with pytest.raises(FlowError, match="no column 'size'; it has number, text"):
        ParquetRows(tmp_path, columns=["size"]).open(None)
    with pytest.raises(FlowError, match="there is no such file"):
        ParquetRows(tmp_path / "nothing").open(None)
    (tmp_path / "z.parquet").write_text("no Parquet")
    with pytest.raises(FlowError, match=r"z.parquet: can't be read as Parquet: .*; mend"):
        all_of(ParquetRows(tmp_path))


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, [1], 1)
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)

    for stage in (ParquetRows(tmp_path), WriteParquet(tmp_path / "out")):
        with pytest.raises(FlowError, match=r"pip install 'shunter\[flows\]'"):
            stage.open(None)


# ---- writing


@settings(max_examples=40)
@given(st.data())
def test_after_a_kill_the_folder_is_what_it_would_have_been(data: st.DataObject) -> None:
    events = rows(30)
    saved_at = data.draw(st.integers(0, 30))
    killed_at = data.draw(st.integers(saved_at, 30))
    with TemporaryDirectory() as folder:
        path = Path(folder, "out.parquet")
        write_with_a_kill(lambda: WriteParquet(path), events, saved_at, killed_at)
        assert all_of(ParquetRows(path)) == events
        assert [each.name for each in Path(folder).iterdir()] == ["out.parquet"]


def test_nothing_is_seen_before_the_end_and_an_older_folder_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for first in (0, 100):
        before = sorted(path.iterdir()) if path.exists() else []
        sink = WriteParquet(path)
        sink.open(None)
        write_all(sink, rows(10, first))
        sink.checkpoint()
        assert (sorted(path.iterdir()) if path.exists() else []) == before
        sink.close()
        assert all_of(ParquetRows(path)) == rows(10, first)


def test_what_was_published_is_gone_back_to(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = WriteParquet(path)
    sink.open(None)
    write_all(sink, rows(10))
    saved = carried(sink.checkpoint())
    write_all(sink, rows(5, 10))
    sink.close()

    again = WriteParquet(path)
    again.open(saved)
    write_all(again, rows(5, 10))
    again.close()

    assert all_of(ParquetRows(path)) == rows(15)


def test_what_was_saved_and_is_gone_ends_the_run(tmp_path: Path) -> None:
    sink = WriteParquet(tmp_path / "out")
    sink.open(None)
    write_all(sink, rows(10))
    saved = sink.checkpoint()
    next((tmp_path / ".out.part").glob("*.parquet")).unlink()

    with pytest.raises(FlowError, match="saved and is gone; begin a new run"):
        sink.open(saved)


def test_a_run_that_is_given_up_publishes_nothing_and_lets_go(tmp_path: Path) -> None:
    sink, other = WriteParquet(tmp_path / "out"), WriteParquet(tmp_path / "out")
    sink.open(None)
    write_all(sink, rows(3))
    saved = sink.checkpoint()
    write_all(sink, rows(3))
    sink.abandon()
    sink.close()
    assert not (tmp_path / "out").exists()

    other.open(saved)
    other.close()
    assert all_of(ParquetRows(tmp_path / "out")) == rows(3)


def test_fields_and_types_that_come_later_are_in_all_files(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sink = WriteParquet(tmp_path / "out")
    sink.open(None)
    for events in ([{"a": 1, "n": None}], [{"a": 2, "b": at}, {"n": "x"}], [{"c": [1]}]):
        sink.write(events)
        saved = carried(sink.checkpoint())
        sink.open(saved)
    sink.close()

    assert pq.read_table(tmp_path / "out").to_pylist() == [
        {"a": 1, "n": None, "b": None, "c": None},
        {"a": 2, "n": None, "b": at, "c": None},
        {"a": None, "n": "x", "b": None, "c": None},
        {"a": None, "n": None, "b": None, "c": [1]},
    ]


def test_large_batches_become_row_groups_of_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "ROWS_AT_ONCE", 10)
    sink = WriteParquet(tmp_path / "out")
    sink.open(None)
    write_all(sink, [{"n": None}] * 10 + [{"n": n} for n in range(40)], 10)
    sink.close()

    files = [pq.ParquetFile(path) for path in sorted((tmp_path / "out").iterdir())]
    assert [file.num_row_groups for file in files] == [1, 4]
    assert [row["n"] for row in all_of(ParquetRows(tmp_path / "out"))] == [None] * 10 + [*range(40)]


def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    sink = WriteParquet(tmp_path / "out")
    sink.open(None)
    sink.write([{"a": 1}])
    sink.checkpoint()
    sink.write([{"a": "text"}])

    with pytest.raises(FlowError, match=r"events don't fit the columns .*pass schema="):
        sink.checkpoint()


def test_a_schema_says_what_columns_there_are(tmp_path: Path) -> None:
    sink = WriteParquet(tmp_path / "out", schema=pa.schema([("number", pa.float64())]))
    sink.open(None)
    sink.write([Row(1), {"number": 2, "other": 3}])
    sink.close()
    assert all_of(ParquetRows(tmp_path / "out")) == [{"number": 1.0}, {"number": 2.0}]

    sink.open(None)
    sink.write([{"number": "one"}])
    with pytest.raises(FlowError, match="events don't fit the columns"):
        sink.close()


def test_a_file_in_its_place_and_a_missing_folder_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FlowError, match="is a file, and would become a folder"):
        WriteParquet(tmp_path / "file").open(None)
    with pytest.raises(FlowError, match=r"there is no folder .*; make it first"):
        WriteParquet(tmp_path / "none" / "out").open(None)


def test_no_events_are_an_empty_folder(tmp_path: Path) -> None:
    sink = WriteParquet(tmp_path / "out")
    sink.open(None)
    sink.close()

    assert all_of(ParquetRows(tmp_path / "out")) == []
