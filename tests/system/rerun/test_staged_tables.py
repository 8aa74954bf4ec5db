"""Rows reach a user's SQLite table in one transaction, and an old attempt does no harm."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.rerun import Owner, StagedTable, StagingError, Superseded, staged_table, sweep_tables
from shunter.rerun.sqlite_rows import quoted
from shunter.rerun.staging_names import staging_name

OLD, NEW = Owner("november", "01job", 1), Owner("november", "01job", 2)
OTHER = Owner("november", "02job", 1)

SCHEMA = "id INTEGER PRIMARY KEY, name TEXT NOT NULL, amount REAL DEFAULT 0"

Hook = Callable[[StagedTable], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.db"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"CREATE TABLE people ({SCHEMA})")
    connection.execute("CREATE UNIQUE INDEX by_name ON people (name)")
    connection.execute("INSERT INTO people VALUES (1, 'ada', 1.5), (2, 'bob', 2.5)")
    yield connection
    connection.close()


def people(database: sqlite3.Connection) -> list[Any]:
    return [tuple(row) for row in database.execute("SELECT * FROM people ORDER BY id")]


def tables(database: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    return [row[0] for row in database.execute(query)]


def stage(
    database: sqlite3.Connection | Path,
    rows: list[Any],
    owner: Owner | str = NEW,
    meanwhile: Hook = lambda _: None,
    table: str = "people",
    **options: Any,
) -> None:
    with staged_table(database, table, run=owner, **options) as staged:
        staged.insert(rows)
        meanwhile(staged)


# ---- replacing


def test_a_table_is_replaced_at_the_end_of_the_block_and_not_before(
    database: sqlite3.Connection,
) -> None:
    seen: list[Any] = []

    stage(database, [(3, "eve", 1.0)], meanwhile=lambda _: seen.extend(people(database)))

    assert seen == [(1, "ada", 1.5), (2, "bob", 2.5)]
    assert people(database) == [(3, "eve", 1.0)]
    assert tables(database) == ["people"]


def test_rows_may_be_mappings_and_any_number(database: sqlite3.Connection) -> None:
    rows = [{"name": f"n{number}", "amount": None, "id": number} for number in range(2500)]

    stage(database, rows)

    assert people(database) == [(number, f"n{number}", None) for number in range(2500)]


def test_indexes_triggers_views_and_constraints_survive(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE log (line)")
    database.execute(
        "CREATE TRIGGER noted AFTER INSERT ON people BEGIN INSERT INTO log VALUES (new.id); END"
    )
    database.execute("CREATE VIEW rich AS SELECT * FROM people WHERE amount > 2")
    before = database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()

    stage(database, [(7, "eve", 3.0)])

    after = database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    assert after == before
    assert database.execute("SELECT name FROM rich").fetchall() == [("eve",)]
    assert database.execute("SELECT line FROM log").fetchall() == [(7,)]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        stage(database, [(1, "same", 0.0), (2, "same", 0.0)])
    assert people(database) == [(7, "eve", 3.0)]
    assert tables(database) == ["log", "people"]


def test_other_readers_see_the_old_rows_until_the_commit(
    database: sqlite3.Connection, path: Path
) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    reader = sqlite3.connect(path)
    try:
        reader.execute("BEGIN")
        before = people(reader)
        stage(database, [(3, "eve", 1.0)])
        assert people(reader) == before
        reader.commit()
        assert people(reader) == [(3, "eve", 1.0)]
    finally:
        reader.close()


def test_a_table_that_is_missing_is_made_from_the_schema_when_published(
    database: sqlite3.Connection,
) -> None:
    seen: list[str] = []

    for number in range(2):
        stage(
            database,
            [(number, "ada", 1.0)],
            meanwhile=lambda _: seen.extend(tables(database)),
            table="guests",
            schema=SCHEMA,
        )

    assert seen.count("guests") == 1
    assert database.execute("SELECT * FROM guests").fetchall() == [(1, "ada", 1.0)]
    assert tables(database) == ["guests", "people"]


def test_odd_names_types_defaults_and_generated_columns_are_kept(
    database: sqlite3.Connection,
) -> None:
    database.execute(
        'CREATE TABLE "odd ""name" (a TEXT DEFAULT "word", b DEFAULT (1 + 2), "c d" VARCHAR(3) '
        "DEFAULT 'it''s', e AS (b * 2), f DEFAULT CURRENT_DATE, PRIMARY KEY (b, a)) WITHOUT ROWID"
    )

    def fill(staged: StagedTable) -> None:
        assert staged.columns == ("a", "b", "c d", "f")
        staged.connection.execute(f"INSERT INTO {quoted(staged.name)} (f) VALUES (9)")

    stage(database, [], meanwhile=fill, table='odd "name')

    assert database.execute('SELECT * FROM "odd ""name"').fetchall() == [("word", 3, "it's", 6, 9)]


def test_columns_that_are_not_filled_get_their_defaults(database: sqlite3.Connection) -> None:
    stage(database, [(4, "eve")], columns=("id", "name"))

    assert people(database) == [(4, "eve", 0.0)]


def test_rows_that_others_refer_to_can_be_replaced(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("CREATE TABLE bills (person REFERENCES people (id))")
    database.execute("INSERT INTO bills VALUES (1)")

    stage(database, [(1, "ada", 9.0)])

    assert people(database) == [(1, "ada", 9.0)]
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        stage(database, [(5, "eve", 9.0)])
    assert people(database) == [(1, "ada", 9.0)]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_a_replacement_that_would_change_other_tables_is_refused(
    database: sqlite3.Connection, action: str
) -> None:
    database.execute(f"CREATE TABLE bills (person REFERENCES people (id) ON DELETE {action})")
    stage(database, [(1, "ada", 9.0)])
    database.execute("PRAGMA foreign_keys = ON")

    with pytest.raises(StagingError, match="use publish='merge'"):
        stage(database, [(1, "ada", 9.0)])

    stage(database, [(1, "ada", 8.0)], publish="merge")
    assert people(database) == [(1, "ada", 8.0)]


# ---- merging


def test_merging_inserts_and_updates_by_the_primary_key(database: sqlite3.Connection) -> None:
    stage(database, [(2, "rob", 0.5), (3, "eve", 1.0)], publish="merge")

    assert people(database) == [(1, "ada", 1.5), (2, "rob", 0.5), (3, "eve", 1.0)]
    assert tables(database) == ["people"]


def test_merging_by_another_key_leaves_columns_alone_that_are_not_filled(
    database: sqlite3.Connection,
) -> None:
    rows = [{"name": "bob", "amount": 9.0}, {"name": "eve", "amount": 1.0}]

    stage(database, rows, publish="merge", key="name", columns=("name", "amount"))

    assert people(database) == [(1, "ada", 1.5), (2, "bob", 9.0), (3, "eve", 1.0)]


def test_a_key_with_nulls_would_multiply_and_is_refused(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE loose (k UNIQUE, v)")

    with pytest.raises(StagingError, match="1 rows have NULL in their key"):
        stage(database, [(None, 1), (2, 2)], table="loose", publish="merge", key="k")

    assert database.execute("SELECT * FROM loose").fetchall() == []


# ---- attempts


def test_an_old_attempt_fails_to_publish_once_a_new_one_has_begun(
    database: sqlite3.Connection, path: Path
) -> None:
    with pytest.raises(Superseded, match="attempt 1 published nothing"):
        stage(database, [(8, "old", 0.0)], OLD, lambda _: stage(path, [(9, "new", 0.0)]))

    assert people(database) == [(9, "new", 0.0)]
    assert tables(database) == ["people"]


def test_an_old_attempt_can_t_add_rows_to_what_was_dropped(
    database: sqlite3.Connection, path: Path
) -> None:
    def go_on(staged: StagedTable) -> None:
        stage(path, [(9, "new", 0.0)])
        staged.insert([(10, "late", 0.0)])

    with pytest.raises(Superseded):
        stage(database, [(8, "old", 0.0)], OLD, go_on)

    assert people(database) == [(9, "new", 0.0)]


def test_an_old_attempt_that_only_now_begins_gives_way(
    database: sqlite3.Connection, path: Path
) -> None:
    def late(_: StagedTable) -> None:
        with pytest.raises(Superseded, match="attempt 2 stages the same"):
            stage(path, [(8, "old", 0.0)], OLD)

    stage(database, [(9, "new", 0.0)], NEW, late)

    assert people(database) == [(9, "new", 0.0)]


def test_two_jobs_of_one_run_merge_into_the_same_table(
    database: sqlite3.Connection, path: Path
) -> None:
    def other(_: StagedTable) -> None:
        stage(path, [(4, "four", 0.0)], OTHER, publish="merge")

    stage(database, [(3, "three", 0.0)], OLD, other, publish="merge")

    assert [row[0] for row in people(database)] == [1, 2, 3, 4]


def test_an_exception_leaves_the_old_rows_and_no_staging(database: sqlite3.Connection) -> None:
    before = people(database)

    def fail(staged: StagedTable) -> None:
        staged.connection.execute("BEGIN")
        staged.insert([(9, "new", 0.0)])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage(database, [(8, "new", 0.0)], meanwhile=fail)

    assert people(database) == before
    assert tables(database) == ["people"]
    assert not database.in_transaction


# ---- connections of users


def test_a_connection_with_implicit_transactions_and_a_row_factory_will_do(
    database: sqlite3.Connection, path: Path
) -> None:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:

        def by_hand(staged: StagedTable) -> None:
            sql = f"INSERT INTO {staged.name} SELECT id + 10, name || '!', amount FROM people"
            connection.execute(sql)

        stage(connection, [(3, "eve", 1.0)], meanwhile=by_hand)
    finally:
        connection.close()

    assert people(database) == [(3, "eve", 1.0), (11, "ada!", 1.5), (12, "bob!", 2.5)]


def test_a_connection_with_an_open_transaction_is_refused(database: sqlite3.Connection) -> None:
    database.execute("BEGIN")

    with pytest.raises(StagingError, match="commit it before you stage"):
        stage(database, [])

    assert database.in_transaction


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"table": "nobody"}, "create it first, or pass its columns"),
        ({"publish": "append"}, "'replace' or 'merge'"),
        ({"columns": ("id", "nope")}, "has no column 'nope'.*it has id, name, amount"),
        ({"columns": ("id", "amount")}, "'name' is NOT NULL and has no default"),
        ({"publish": "merge", "key": "amount"}, "CREATE UNIQUE INDEX"),
        ({"publish": "merge", "columns": ("name",)}, "key column 'id' is not given"),
        ({"table": "a\0b", "schema": SCHEMA, "publish": "merge"}, "can't name a table"),
        ({"rows": [(1, "a")]}, "expected id, name, amount"),
        ({"rows": [{"id": 1}]}, "expected id, name, amount"),
    ],
)
def test_bad_input_is_refused_with_the_remedy_before_any_work(
    database: sqlite3.Connection, options: dict[str, Any], remedy: str
) -> None:
    before = people(database)

    with pytest.raises(StagingError, match=remedy):
        stage(database, options.pop("rows", []), **options)

    assert people(database) == before
    assert tables(database) == ["people"]


# ---- sweeping


def test_sweeping_takes_what_is_old_and_spares_what_is_young(database: sqlite3.Connection) -> None:
    now = time.time()
    old = staging_name("people", OTHER, opened=now - 7200, unique=1)
    young = staging_name("people", OTHER, opened=now - 60, unique=2)
    for name in (old, young, "staging_of_the_user"):
        database.execute(f"CREATE TABLE {name} (x)")

    assert sweep_tables(database, older_than=3600) == [old]

    assert tables(database) == ["people", "staging_of_the_user", young]
