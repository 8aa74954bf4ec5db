"""Upserted rows are there once, however often it is done."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.rerun import StagingError, upsert_rows


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "users.db")
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name UNIQUE, note)")
    connection.execute("CREATE TABLE pairs (a, b, PRIMARY KEY (b, a))")
    connection.execute("CREATE TABLE heap (x)")
    connection.commit()
    yield connection
    connection.close()


def people(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT * FROM people ORDER BY id").fetchall()


def test_a_repetition_changes_nothing(database: sqlite3.Connection) -> None:
    rows = [{"id": n, "name": f"n{n}"} for n in range(2500)]

    assert upsert_rows(database, "people", rows) == 2500
    assert upsert_rows(database, "people", iter(rows)) == 2500

    assert people(database) == [(n, f"n{n}", None) for n in range(2500)]
    assert not database.in_transaction


def test_columns_that_are_not_given_stay(database: sqlite3.Connection) -> None:
    upsert_rows(database, "people", [(1, "ada", "kept")], columns=("id", "name", "note"))

    upsert_rows(database, "people", [{"name": "eve", "id": 1}])
    upsert_rows(database, "people", [{"name": "eve", "id": 7}], key="name")

    assert people(database) == [(7, "eve", "kept")]


def test_a_row_that_is_all_key_is_inserted_once(database: sqlite3.Connection) -> None:
    for _ in range(2):
        upsert_rows(database, "pairs", [(1, 2), (1, 3)], columns=("a", "b"))

    assert database.execute("SELECT * FROM pairs").fetchall() == [(1, 2), (1, 3)]


def test_within_a_transaction_the_end_of_it_is_the_callers(database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO people VALUES (1, 'ada', NULL)")
    upsert_rows(database, "people", [{"id": 2, "name": "bob"}])
    database.rollback()

    assert people(database) == []


def test_a_path_will_do(database: sqlite3.Connection, tmp_path: Path) -> None:
    upsert_rows(tmp_path / "users.db", "people", [{"id": 1, "name": "ada"}])

    assert people(database) == [(1, "ada", None)]


def test_an_error_in_a_batch_leaves_nothing_of_it(database: sqlite3.Connection) -> None:
    rows = [{"id": 1, "name": "same"}, {"id": 2, "name": "same"}]

    with pytest.raises(sqlite3.IntegrityError):
        upsert_rows(database, "people", rows)

    assert people(database) == []
    assert not database.in_transaction


@pytest.mark.parametrize(
    ("table", "rows", "options", "remedy"),
    [
        ("nobody", [], {}, "create it first"),
        ("heap", [{"x": 1}], {}, "say with key="),
        ("heap", [{"x": 1}], {"key": "x"}, 'CREATE UNIQUE INDEX name ON "heap"'),
        ("people", [{"name": "ada"}], {}, "key column 'id' is not given"),
        ("people", [{"id": None, "name": "ada"}], {}, "give a value"),
        ("people", [{"id": 1}, {"id": 2, "name": "b"}], {}, "row 1: found id, name; expected id"),
        ("people", [(1, "ada")], {}, "columns=… says which"),
        ("people", [{"id": 1, "nope": 2}], {}, "no column named nope"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    database: sqlite3.Connection,
    table: str,
    rows: list[Any],
    options: dict[str, Any],
    remedy: str,
) -> None:
    with pytest.raises(StagingError, match=remedy):
        upsert_rows(database, table, rows, **options)

    assert people(database) == []
