"""SQLite: rows are read by a column that rises, and upserted so that repetitions do no harm."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.sinks import UpsertRows, sqlite_table
from shunter.flow.sources import SqliteRows, sqlite_rows
from unit.flow.io_steps import all_of, carried, limits, read_with_a_stop, rest_of, write_with_a_kill

keys = st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.binary(max_size=5)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "my.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [(1, "a"), (2, "b"), (4, "d")])
        yield connection


@pytest.fixture
def path(database: sqlite3.Connection, tmp_path: Path) -> Path:
    return tmp_path / "my.db"


# ---- reading


@settings(max_examples=50)
@given(values=st.sets(keys, max_size=20), sizes=limits, batches=st.integers(0, 12))
def test_rows_are_read_from_any_position(values: set[Any], sizes: list[int], batches: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "my.db")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE things (key BLOB UNIQUE, size)")
            connection.executemany("INSERT INTO things VALUES (?, 1)", [(key,) for key in values])
            expected = [
                {"key": key, "size": 1}
                for (key,) in connection.execute("SELECT key FROM things ORDER BY key")
            ]
        assert all_of(SqliteRows(path, "things", by="key"), sizes) == expected

        def make() -> SqliteRows:
            return SqliteRows(path, "SELECT key, size FROM things;", by="key")

        assert read_with_a_stop(make, sizes, batches) == expected


@dataclass
class Person:
    id: int
    name: str


def test_a_select_chooses_and_rows_become_objects(path: Path) -> None:
    select = "\n select id, upper(name) AS name FROM people WHERE id > 1"

    assert all_of(SqliteRows(path, select, by="id", type=Person)) == [
        Person(2, "B"),
        Person(4, "D"),
    ]


def test_a_table_is_followed(
    database: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_rows, "POLL_SECONDS", 0.0)
    source = SqliteRows(path, "people", by="id", follow=True)
    source.open(carried(2))
    assert source.read(10) == [{"id": 4, "name": "d"}]
    assert source.read(10) == []

    database.execute("INSERT INTO people VALUES (9, 'x')")
    assert source.read(10) == [{"id": 9, "name": "x"}]
    assert source.position() == 9
    source.close()


def test_it_does_not_look_all_the_time(database: sqlite3.Connection, path: Path) -> None:
    source = SqliteRows(path, "people", by="id", follow=True)
    source.open(4)
    assert source.read(10) == []

    database.execute("INSERT INTO people VALUES (9, 'x')")
    assert source.read(10) == []
    source.close()


def test_a_table_that_is_locked_has_nothing_just_now(
    database: sqlite3.Connection, path: Path
) -> None:
    source = SqliteRows(path, "people", by="id")
    source.open(None)
    database.execute("BEGIN EXCLUSIVE")
    assert source.read(10) == []

    database.execute("COMMIT")
    assert len(rest_of(source)) == 3


def test_nothing_is_ever_written(path: Path) -> None:
    source = SqliteRows(path, "people", by="id")
    source.open(None)
    assert source._connection is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        source._connection.execute("DELETE FROM people")
    source.close()


@pytest.mark.parametrize(
    ("table", "by", "fault"),
    [
        ("nobody", "id", "no such table: nobody; check the table"),
        ("SELECT oops", "id", "no such column: oops"),
        ("people", "age", "no column 'age'; by=… is one of id, name"),
        ("SELECT id, 1 AS one FROM people", "one", "'one' is 1 in several rows"),
        ("SELECT id, NULL AS none FROM people", "none", "None in several rows or NULL"),
    ],
)
def test_what_can_not_be_read_in_order_is_refused(
    path: Path, table: str, by: str, fault: str
) -> None:
    source = SqliteRows(path, table, by=by)
    source.open(None)
    with pytest.raises(FlowError, match=fault):
        source.read(1)
    source.close()


@pytest.mark.parametrize("stage", [SqliteRows("none.db", "t", by="id"), UpsertRows("none.db", "t")])
def test_a_database_that_is_not_there_is_named(stage: SqliteRows | UpsertRows) -> None:
    with pytest.raises(FlowError, match=r"none\.db: there is no such database"):
        stage.open(None)


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 1000)
    source = SqliteRows(tmp_path / "text.db", "t", by="id")
    source.open(None)
    with pytest.raises(FlowError, match="file is not a database"):
        source.read(1)
    source.close()
    with pytest.raises(FlowError, match="file is not a database"):
        UpsertRows(tmp_path / "text.db", "t").open(None)


# ---- upserts


@settings(max_examples=50)
@given(
    numbers=st.lists(st.tuples(st.integers(1, 5), st.text(max_size=3)), max_size=12),
    data=st.data(),
)
def test_after_a_kill_the_table_is_what_it_would_have_been(
    numbers: list[tuple[int, str]], data: st.DataObject
) -> None:
    events = [{"id": number, "name": name} for number, name in numbers]
    saved_at = data.draw(st.integers(0, len(events)))
    killed_at = data.draw(st.integers(saved_at, len(events)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "my.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        write_with_a_kill(lambda: UpsertRows(path, "people"), events, saved_at, killed_at)
        expected = list({event["id"]: event for event in events}.values())
        found = all_of(SqliteRows(path, "people", by="id"))
    assert found == sorted(expected, key=lambda event: event["id"])


def test_objects_are_upserted_by_a_key_of_ones_own(
    database: sqlite3.Connection, path: Path
) -> None:
    database.execute("CREATE UNIQUE INDEX names ON people (name)")
    sink = UpsertRows(path, "people", key="name")
    sink.open(None)
    sink.write([Person(7, "a")])
    sink.close()

    assert database.execute("SELECT id FROM people WHERE name = 'a'").fetchall() == [(7,)]


def test_a_database_that_is_locked_takes_nothing_just_now(
    database: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_table, "BUSY_SECONDS", 0.0)
    sink = UpsertRows(path, "people").part(1, 2)
    sink.open(None)
    database.execute("BEGIN IMMEDIATE")
    assert sink.write([{"id": 1, "name": "x"}]) == 0

    database.execute("COMMIT")
    assert sink.write([{"id": 1, "name": "x"}]) == 1
    sink.close()


def test_a_batch_is_written_as_a_whole_or_not_at_all(
    database: sqlite3.Connection, path: Path
) -> None:
    sink = UpsertRows(path, "people")
    sink.open(None)
    with pytest.raises(FlowError, match="all rows have the same columns"):
        sink.write([{"id": 100 + n, "name": "x"} for n in range(1500)] + [{"id": 1}])
    sink.close()

    assert database.execute("SELECT count(*) FROM people").fetchone() == (3,)


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ({"id": 1, "age": 3}, r"is there a table with these columns \(id, age\)"),
        ({"name": "x"}, "the key column 'id' is not given"),
        ({"id": 1, "name": {}}, "create the table with the columns that events have"),
        ("text", "'text' has no fields"),
    ],
)
def test_an_event_that_fits_no_columns_is_refused(path: Path, event: Any, fault: str) -> None:
    sink = UpsertRows(path, "people")
    sink.open(None)
    with pytest.raises(FlowError, match=fault):
        sink.write([event])
    sink.close()


def test_a_table_that_is_not_there_is_named_at_once(path: Path) -> None:
    sink = UpsertRows(path, "nobody")
    with pytest.raises(FlowError, match="there is no table 'nobody'; create the table"):
        sink.open(None)
    sink.close()
