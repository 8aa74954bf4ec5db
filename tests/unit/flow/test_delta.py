"""A Delta table gets each event once, also when a commit is repeated after a death."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.sinks import WriteDelta
from unit.flow.io_steps import carried, write_all, write_with_a_kill


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"number": n, "text": f"n{n}" if n % 3 else None} for n in range(first, first + count)]


def rows_in(path: Path) -> list[dict[str, Any]]:
    """What is in a table, by the number that rows have."""
    found = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    return sorted(found, key=lambda row: row["number"])


def versions(path: Path) -> int:
    return DeltaTable(path).version() + 1


@settings(max_examples=20)
@given(st.data())
def test_after_a_kill_the_table_is_what_it_would_have_been(data: st.DataObject) -> None:
    events = rows(30)
    saved_at = data.draw(st.integers(0, 30))
    killed_at = data.draw(st.integers(saved_at, 30))
    with TemporaryDirectory() as folder:
        path = Path(folder, "table")
        write_with_a_kill(lambda: WriteDelta(path), events, saved_at, killed_at)
        assert rows_in(path) == events
        assert versions(path) == 1
        assert [each.name for each in Path(folder).iterdir()] == ["table"]


def test_a_flow_writes_a_table(tmp_path: Path) -> None:
    flow = Flow("numbers")
    flow.source(rows(100)).sink(WriteDelta(tmp_path / "table"))
    flow.run("local")
    flow.run("local")

    assert len(rows_in(tmp_path / "table")) == 200
    assert versions(tmp_path / "table") == 2


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    sink = WriteDelta(tmp_path / "table")
    sink.open(None)
    write_all(sink, rows(10))
    sink.checkpoint()
    assert not (tmp_path / "table").exists()

    sink.close()
    assert rows_in(tmp_path / "table") == rows(10)


def test_a_run_that_died_after_its_commit_appends_nothing_again(tmp_path: Path) -> None:
    path = tmp_path / "table"
    sink = WriteDelta(path)
    sink.open(None)
    write_all(sink, rows(10))
    saved = carried(sink.checkpoint())
    write_all(sink, rows(5, 10))
    sink.close()

    again = WriteDelta(path)
    again.open(saved)
    for first in (10, 12, 14):
        write_all(again, rows(2, first))
        again.checkpoint()
    again.close()

    assert rows_in(path) == rows(15)
    assert versions(path) == 1


# ---- seen while the flow runs


@pytest.mark.parametrize("dies", ["before", "between", "after"])
def test_each_checkpoint_is_one_transaction_also_if_it_is_repeated(
    dies: str, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    sink, saved = WriteDelta(path), None
    for batch in range(5):
        sink.open_shown(saved)
        write_all(sink, rows(3, 3 * batch))
        if dies == "before" and batch == 2:
            write_all(sink, rows(1, 999))
            sink = WriteDelta(path)
            sink.open_shown(saved)
            sink.publish()
            write_all(sink, rows(3, 3 * batch))
        saved = carried(sink.checkpoint())
        if dies == "between" and batch == 2:
            sink = WriteDelta(path)
            sink.open_shown(saved)
        sink.publish()
        if dies == "after" and batch == 2:
            sink = WriteDelta(path)
            sink.open_shown(saved)
            sink.publish()
        assert len(rows_in(path)) == 3 * (batch + 1)
    sink.close()

    assert rows_in(path) == rows(15)
    assert versions(path) == 5
    assert [each.name for each in tmp_path.iterdir()] == ["table"]


def test_a_checkpoint_without_events_is_no_transaction(tmp_path: Path) -> None:
    sink = WriteDelta(tmp_path / "table")
    sink.open_shown(None)
    for events in (rows(2), [], rows(2, 2)):
        sink.write(events)
        sink.checkpoint()
        sink.publish()
    sink.close()

    assert versions(tmp_path / "table") == 2


# ---- columns


def test_columns_that_come_later_are_added_to_the_table(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sink, saved = WriteDelta(tmp_path / "table"), None
    for events in (
        [{"number": 1, "n": None}],
        [{"number": 2, "b": at}, {"number": 3, "n": "x"}],
        [{"number": 4, "c": [1]}],
    ):
        sink.open_shown(saved)
        sink.write(events)
        saved = carried(sink.checkpoint())
        sink.publish()
    sink.close()

    nothing = {"n": None, "b": None, "c": None}
    assert rows_in(tmp_path / "table") == [
        {"number": 1, **nothing},
        {"number": 2, **nothing, "b": at},
        {"number": 3, **nothing, "n": "x"},
        {"number": 4, **nothing, "c": [1]},
    ]


def test_a_schema_says_what_columns_there_are(tmp_path: Path) -> None:
    schema = pa.schema([("number", pa.float64())])
    sink = WriteDelta(tmp_path / "table", schema=schema)
    sink.open(None)
    sink.write([{"number": 1, "other": 3}])
    sink.close()
    assert rows_in(tmp_path / "table") == [{"number": 1.0}]


def test_events_that_do_not_fit_the_table_append_nothing(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"number": [1]}))
    sink = WriteDelta(path)
    sink.open(None)
    sink.write([{"number": "one"}])
    with pytest.raises(FlowError, match="events don't fit the columns"):
        sink.close()

    assert rows_in(path) == [{"number": 1}]
    assert versions(path) == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([("number", pa.string())], "'number' of string, and the table has one of long"),
        ([("number", pa.int64()), ("more", pa.int64())], "'more' of long, and the table has none"),
    ],
)
def test_a_schema_that_the_table_has_not_got_is_refused_at_once(
    schema: list[Any], said: str, tmp_path: Path
) -> None:
    write_deltalake(tmp_path / "table", pa.table({"number": [1]}))

    with pytest.raises(FlowError, match=said):
        WriteDelta(tmp_path / "table", schema=pa.schema(schema)).open(None)


def test_no_events_make_a_table_where_its_columns_are_known(tmp_path: Path) -> None:
    for name, schema in (("one", None), ("two", pa.schema([("number", pa.int64())]))):
        sink = WriteDelta(tmp_path / name, schema=schema)
        sink.open(None)
        sink.close()

    assert [each.name for each in tmp_path.iterdir()] == ["two"]
    assert rows_in(tmp_path / "two") == []


# ---- bad input


def test_what_was_saved_and_is_gone_ends_the_run(tmp_path: Path) -> None:
    sink = WriteDelta(tmp_path / "table")
    sink.open(None)
    write_all(sink, rows(10))
    saved = sink.checkpoint()
    next((tmp_path / ".table.part").glob("*.parquet")).unlink()

    with pytest.raises(FlowError, match="saved and is gone; begin a new run"):
        sink.open(saved)


def test_a_folder_with_other_files_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(FlowError, match="has files and is no Delta table; give another path"):
        WriteDelta(tmp_path / "mine").open(None)
    with pytest.raises(FlowError, match=r"there is no folder .*; make it first"):
        WriteDelta(tmp_path / "none" / "table").open(None)


def test_without_deltalake_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)

    with pytest.raises(FlowError, match=r"pip install 'shunter\[delta\]'"):
        WriteDelta(tmp_path / "table").open(None)
