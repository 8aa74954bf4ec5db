"""The file: its version, its migrations, and files that are not for us."""

from __future__ import annotations

import sqlite3

import pytest

from conformance.store.given import job
from shunter.errors import StoreError
from shunter.store.sqlite import SQLiteStore
from shunter.store.sqlite.connection import APPLICATION_ID, connect, migrate, migrations

LATER = """
CREATE TABLE notes (text TEXT);  -- two statements
INSERT INTO notes SELECT id || '; noted' FROM jobs;
"""


@pytest.fixture
def connection(path):
    connection = connect(path, busy_timeout=1.0, cache_mebibytes=1)
    yield connection
    connection.close()


def value(connection, text):
    return connection.execute(text).fetchone()[0]


def test_a_new_file_gets_the_current_version(run, store, connection):
    assert value(connection, "PRAGMA user_version") == len(migrations())
    assert value(connection, "PRAGMA application_id") == APPLICATION_ID


def test_a_file_of_version_1_is_migrated_with_all_that_is_in_it(run, path, connection):
    first = migrations()[:1]
    migrate(connection, path, first)
    connection.execute(
        "INSERT INTO jobs (id, revision, status, type, rank, doc) VALUES ('a', 0, 'q', 't', 1, '')"
    )

    migrate(connection, path, [*first, LATER])

    assert value(connection, "SELECT text FROM notes") == "a; noted"
    assert value(connection, "PRAGMA user_version") == 2


def test_keys_of_an_older_file_go_on_being_unique_and_its_jobs_have_no_namespace(path, connection):
    migrate(connection, path, migrations()[:4])
    columns = "id, revision, status, type, rank, unique_key, doc"
    insert = f"INSERT INTO jobs ({columns}) VALUES (?, 0, 'q', 't', 1, 'k', '')"
    connection.execute(insert, ("a",))

    migrate(connection, path, migrations())

    assert value(connection, "SELECT namespace FROM jobs") == ""
    with pytest.raises(sqlite3.IntegrityError, match="unique_key"):
        connection.execute(insert, ("b",))


def test_a_migration_that_fails_changes_nothing(path, connection):
    migrate(connection, path, migrations())

    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, path, [*migrations(), LATER + "SELECT * FROM nowhere;"])

    assert value(connection, "PRAGMA user_version") == len(migrations())
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        value(connection, "SELECT text FROM notes")


def test_migrating_a_file_that_is_up_to_date_writes_nothing(path, connection):
    migrate(connection, path, migrations())
    before = connection.total_changes

    migrate(connection, path, migrations())

    assert connection.total_changes == before


def test_a_file_of_a_newer_version_is_refused_with_both_versions_and_the_remedy(run, path):
    store = SQLiteStore(path)
    run(store.open())
    run(store.insert([job("kept")]))
    run(store.close())
    current = len(migrations())
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {current + 4}")
    other.close()

    with pytest.raises(
        StoreError, match=rf"version {current + 4}.* version {current}; install the newer"
    ):
        run(store.open())

    with sqlite3.connect(path) as other:
        assert value(other, "SELECT id FROM jobs") == "kept"
    other.close()


def test_another_programs_database_is_left_alone(run, path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()

    with pytest.raises(StoreError, match=r"jobs\.db: the file is another program's database"):
        run(SQLiteStore(path).open())


def test_a_file_that_is_no_database_is_refused(run, path):
    with open(path, "wb") as file:
        file.write(b"dear diary, " * 1000)

    with pytest.raises(StoreError, match=r"jobs\.db: it is not an SQLite database; name another"):
        run(SQLiteStore(path).open())


def test_a_missing_directory_is_named(run, tmp_path):
    store = SQLiteStore(str(tmp_path / "missing" / "jobs.db"))

    with pytest.raises(StoreError, match=r"missing/jobs\.db: it can't be opened; create its dir"):
        run(store.open())


def test_records_in_the_file_can_be_read_with_the_sqlite_shell(run, store, connection):
    run(store.insert([job("readable", priority=3)]))

    assert value(connection, "SELECT doc ->> 'priority' FROM jobs WHERE id = 'readable'") == 3
