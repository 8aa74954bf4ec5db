"""A staging table in the user's SQLite database, published by one transaction.

The target keeps its indexes, constraints, triggers and views, as its contents are exchanged and
not itself. The staging table goes in the same transaction, so what is published leaves nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from shunter.errors import StagingError, Superseded
from shunter.rerun.ownership import Attempt, new_name, owner_of
from shunter.rerun.sqlite_rows import (
    Column,
    Database,
    Row,
    batches,
    columns_of,
    fetched,
    key_of,
    opened,
    quoted,
    transaction,
    upsert_statement,
)
from shunter.rerun.staging_names import PREFIX, Owner, left_behind, overdue

_TOUCHING_OTHERS = ("CASCADE", "SET NULL", "SET DEFAULT")


class StagedTable:
    """The staging table of one attempt: fill it, with `insert` or by your own SQL.

    `name` is the table's, `columns` are those it has, `connection` is where it can be reached.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        target: str,
        owner: Owner,
        *,
        schema: str | None,
        columns: Sequence[str] | None,
    ) -> None:
        self.connection, self.target, self._owner, self._schema = connection, target, owner, schema
        self.name = new_name(target.casefold(), owner)
        if connection.in_transaction:
            raise StagingError(
                "this connection has a transaction open; commit it before you stage (one that "
                "was opened with autocommit=False always has; use one that was not)"
            )
        with transaction(connection):
            for name in left_behind(_stagings(connection), target.casefold(), owner):
                connection.execute(f"DROP TABLE {quoted(name)}")
            self._create(columns)
            self._known = columns_of(connection, self.name)
        self.columns = tuple(column.name for column in self._known)

    def insert(self, rows: Iterable[Row]) -> int:
        """Add rows, mappings or sequences with a value for each of `columns`; return how many.

        Each thousand are a transaction, unless one is open.
        """
        listed, places = ", ".join(map(quoted, self.columns)), ", ".join("?" * len(self.columns))
        statement = f"INSERT INTO {quoted(self.name)} ({listed}) VALUES ({places})"  # noqa: S608
        count = 0
        for _, batch in batches(rows, self.columns):
            with transaction(self.connection):
                self._check_present()
                self.connection.executemany(statement, batch)
            count += len(batch)
        return count

    def check(self, publish: str, key: str | Sequence[str] | None) -> None:
        """Find out now, not after hours of work, whether it can be published so."""
        if publish not in ("replace", "merge"):
            raise StagingError(f"publish is {publish!r}; it is 'replace' or 'merge'")
        known = columns_of(self.connection, self.target)
        if publish == "merge":
            keys = key_of(self.target, known or self._known, key, self.columns)
            upsert_statement(self.connection, self._like_target, self.columns, keys)
        for column in known:
            is_left_out = column.name not in self.columns and not column.key_position
            if is_left_out and column.is_required and column.default is None:
                raise StagingError(
                    f"{self.target}: column {column.name!r} is NOT NULL and has no default; "
                    "add it to columns=…"
                )
        if publish == "replace" and fetched(self.connection, "PRAGMA foreign_keys") == [(1,)]:
            self._refuse_cascades()

    def publish(self, publish: str, key: str | Sequence[str] | None) -> None:
        """Bring the rows into the target, with whatever the caller's transaction holds."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_present()
            if not columns_of(self.connection, self.target):
                self.connection.execute(f"CREATE TABLE {quoted(self.target)} ({self._schema})")
            if publish == "merge":
                self._merge(key)
            else:
                self._replace()
            self.connection.execute(f"DROP TABLE {quoted(self.name)}")
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def drop(self) -> None:
        """Remove the staging table, and what an open transaction holds."""
        # Who is here has an error on its way. The next attempt drops what can't be dropped now.
        with contextlib.suppress(sqlite3.Error):
            self._roll_back()
            self.connection.execute(f"DROP TABLE IF EXISTS {quoted(self.name)}")

    @property
    def _like_target(self) -> str:
        return self.target if columns_of(self.connection, self.target) else self.name

    def _create(self, columns: Sequence[str] | None) -> None:
        known = columns_of(self.connection, self.target)
        if known:
            chosen = _chosen(self.target, known, columns)
            keys = [column for column in chosen if column.key_position]
            parts = [column.ddl for column in chosen]
            if keys and len(keys) == sum(bool(column.key_position) for column in known):
                keys.sort(key=lambda column: column.key_position)
                parts.append(f"PRIMARY KEY ({', '.join(quoted(c.name) for c in keys)})")
            self.connection.execute(f"CREATE TABLE {quoted(self.name)} ({', '.join(parts)})")
        elif self._schema is None:
            raise StagingError(
                f"there is no table {self.target!r}; create it first, or pass its columns, as in "
                "schema='id INTEGER PRIMARY KEY, name TEXT'"
            )
        else:
            self.connection.execute(f"CREATE TABLE {quoted(self.name)} ({self._schema})")

    def _replace(self) -> None:
        target, listed = quoted(self.target), ", ".join(map(quoted, self.columns))
        self.connection.execute("PRAGMA defer_foreign_keys = ON")
        self.connection.execute(f"DELETE FROM {target}")  # noqa: S608
        self.connection.execute(
            f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {quoted(self.name)}"  # noqa: S608
        )

    def _merge(self, key: str | Sequence[str] | None) -> None:
        keys = key_of(self.target, columns_of(self.connection, self.target), key, self.columns)
        empty = " OR ".join(f"{quoted(name)} IS NULL" for name in keys)
        nulls = f"SELECT count(*) FROM {quoted(self.name)} WHERE {empty}"  # noqa: S608
        if (count := fetched(self.connection, nulls)[0][0]) > 0:
            raise StagingError(
                f"{self.target}: {count} rows have NULL in their key {keys}; SQLite takes each "
                "NULL for another, so a repetition would insert them again; give a value"
            )
        statement = upsert_statement(self.connection, self.target, self.columns, keys, self.name)
        self.connection.execute(statement)

    def _refuse_cascades(self) -> None:
        query = (
            "SELECT m.name, f.on_delete FROM sqlite_master m, pragma_foreign_key_list(m.name) f "
            "WHERE m.type = 'table' AND lower(f.\"table\") = lower(?)"
        )
        for child, action in fetched(self.connection, query, self.target):
            if action in _TOUCHING_OTHERS and child.lower() != self.target.lower():
                raise StagingError(
                    f"{self.target}: replacing its rows would change those of {child!r}, which "
                    f"refers to it ON DELETE {action}; use publish='merge', or a connection with "
                    "PRAGMA foreign_keys = OFF"
                )

    def _check_present(self) -> None:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if not fetched(self.connection, query, self.name):
            fact = "what it has staged was dropped"
            raise Superseded(self.target, self._owner.attempt, fact)

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")


@contextmanager
def staged_table(
    database: Database,
    table: str,
    *,
    publish: Literal["replace", "merge"] = "replace",
    key: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    schema: str | None = None,
    run: Attempt | str | None = None,
) -> Iterator[StagedTable]:
    """Yield a staging table to fill; at the end of the block its rows go into `table`.

    In one transaction, which either replaces all rows there or merges, that is inserts or
    updates by `key` (the primary key by default). `columns` are those that you fill,
    all by default; when merging, others stay as they are. Where `table` is missing it
    is made from `schema`, the columns as in CREATE TABLE, when the rows are published.

    `database` is your connection or the path of a file. If the block raises, or the process
    dies, `table` stays as it was. Raises Superseded if a newer attempt of the job has begun.
    """
    owner = owner_of(run)
    with opened(database) as connection:
        staged = StagedTable(connection, table, owner, schema=schema, columns=columns)
        try:
            staged.check(publish, key)
            yield staged
            staged.publish(publish, key)
        except BaseException:
            staged.drop()
            raise


def sweep_tables(database: Database, *, older_than: float) -> list[str]:
    """Drop staging tables of runs that never came back; return their names.

    Those opened more than `older_than` seconds ago. Allow more than your longest job takes: what
    belongs to a job that still runs would fail to publish.
    """
    with opened(database) as connection, transaction(connection):
        due = overdue(_stagings(connection), now=time.time(), older_than=older_than)
        for name in due:
            connection.execute(f"DROP TABLE {quoted(name)}")
    return sorted(due)


def _stagings(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ? || '*'"
    return [name for (name,) in fetched(connection, query, PREFIX)]


def _chosen(table: str, known: list[Column], columns: Sequence[str] | None) -> list[Column]:
    if columns is None:
        return known
    by_name = {column.name: column for column in known}
    if unknown := [name for name in columns if name not in by_name]:
        raise StagingError(
            f"{table} has no column {unknown[0]!r} that can be written; it has {', '.join(by_name)}"
        )
    return [by_name[name] for name in columns]
