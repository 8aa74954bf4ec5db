"""Rows into a table of the user's SQLite database, such that a repetition changes nothing.

Also what there is to know about a table, and when a transaction is ours to end.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from shunter.errors import StagingError

Database = sqlite3.Connection | str | os.PathLike[str]
Row = Mapping[str, Any] | Sequence[Any]

BATCH = 1000
BUSY_SECONDS = 60.0

_WORD = re.compile(r'(\w+|"([^"]|"")*")\Z')


class Column(NamedTuple):
    """One column that can be written, as the table declares it."""

    name: str
    declared: str
    is_required: bool
    default: str | None
    key_position: int

    @property
    def ddl(self) -> str:
        required = " NOT NULL" if self.is_required else ""
        if self.default is None:
            return f"{quoted(self.name)} {self.declared}{required}"
        # A word is a text where it stands alone, and a column in brackets; a call needs them.
        default = self.default if _WORD.match(self.default) else f"({self.default})"
        return f"{quoted(self.name)} {self.declared}{required} DEFAULT {default}"


def upsert_rows(
    database: Database,
    table: str,
    rows: Iterable[Row],
    *,
    key: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> int:
    """Insert rows, or update those whose key is there already; return how many were given.

    A row is a mapping, or a sequence in the order of `columns`. Columns that are not given stay
    as they are. `key` needs a unique index, and is the primary key by default. Within
    your transaction if one is open; else each thousand rows are one.
    """
    with opened(database) as connection:
        known = columns_of(connection, table)
        if not known:
            raise StagingError(f"there is no table {table!r}; create it first")
        count = 0
        for names, batch in batches(rows, columns):
            keys = key_of(table, known, key, names)
            statement = upsert_statement(connection, table, names, keys)
            places = [names.index(name) for name in keys]
            for row in batch:
                if any(row[place] is None for place in places):
                    raise StagingError(
                        f"{table}: a row has NULL in its key {keys}: {row}; SQLite takes each "
                        "NULL for another, so a repetition would insert it again; give a value"
                    )
            with transaction(connection):
                connection.executemany(statement, batch)
            count += len(batch)
        return count


def upsert_statement(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    keys: Sequence[str],
    source: str | None = None,
) -> str:
    """Return the SQL, having checked that SQLite accepts it; from a table where one is named."""
    listed, unique = ", ".join(map(quoted, names)), ", ".join(map(quoted, keys))
    changed = [quoted(name) for name in names if name not in keys]
    what = f"UPDATE SET {', '.join(f'{n} = excluded.{n}' for n in changed)}" if changed else ""
    values = f"VALUES ({', '.join('?' * len(names))})"
    if source is not None:
        # Without the WHERE, SQLite would take ON for the beginning of a join.
        values = f"SELECT {listed} FROM {quoted(source)} WHERE true"  # noqa: S608
    statement = (
        f"INSERT INTO {quoted(table)} ({listed}) {values} "
        f"ON CONFLICT ({unique}) DO {what or 'NOTHING'}"
    )
    try:
        nothing = () if source is not None else (None,) * len(names)
        connection.execute(f"EXPLAIN {statement}", nothing).close()
    except sqlite3.OperationalError as error:
        raise StagingError(
            f"{table}: can't upsert by {', '.join(keys)}: {error}; is there a table with these "
            f"columns ({', '.join(names)}), and a unique index on the key? "
            f"CREATE UNIQUE INDEX name ON {quoted(table)} ({unique})"
        ) from error
    return statement


def key_of(
    table: str, known: Sequence[Column], key: str | Sequence[str] | None, names: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns by which rows are recognised, all of which must be among `names`."""
    if key is None:
        primary = sorted((c for c in known if c.key_position), key=lambda c: c.key_position)
        keys = tuple(column.name for column in primary)
    else:
        keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise StagingError(f"{table} has no primary key; say with key=… what makes a row unique")
    if missing := [name for name in keys if name not in names]:
        raise StagingError(f"{table}: the key column {missing[0]!r} is not given; add it to rows")
    return keys


def batches(
    rows: Iterable[Row], columns: Sequence[str] | None
) -> Iterator[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """Yield the columns and up to a thousand rows, each as a tuple in their order."""
    names = tuple(columns) if columns is not None else None
    remaining = iter(rows)
    position = 0
    while chunk := list(islice(remaining, BATCH)):
        tuples = []
        for row in chunk:
            if isinstance(row, Mapping):
                names = names or tuple(row)
                fits = len(row) == len(names) and all(name in row for name in names)
                values = tuple(row[name] for name in names) if fits else ()
            else:
                fits = names is not None and len(row) == len(names)
                values = tuple(row)
            if not fits:
                expected = ", ".join(names) if names is not None else "a mapping"
                found = ", ".join(row) if isinstance(row, Mapping) else repr(row)
                raise StagingError(
                    f"row {position}: found {found}; expected {expected}: all rows have the same "
                    "columns, and columns=… says which where a row is a sequence"
                )
            tuples.append(values)
            position += 1
        assert names is not None
        yield names, tuples


def columns_of(connection: sqlite3.Connection, table: str) -> list[Column]:
    """Return the columns of a table that can be written; none if there is no such table."""
    query = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) WHERE hidden=0'
    return [
        Column(name, declared, bool(required), default, position)
        for name, declared, required, default, position in fetched(connection, query, table)
    ]


def fetched(connection: sqlite3.Connection, query: str, *values: Any) -> list[Any]:
    """Return plain tuples, whatever row factory the connection has."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor.execute(query, values).fetchall()


def quoted(name: str) -> str:
    """Return a name as SQL takes it literally."""
    if not name or "\0" in name:
        raise StagingError(f"{name!r} can't name a table or column; a name has letters")
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def opened(database: Database) -> Iterator[sqlite3.Connection]:
    """Yield the caller's connection, or one to this file, which is closed at the end."""
    if isinstance(database, sqlite3.Connection):
        yield database
        return
    connection = sqlite3.connect(database, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of the block or nothing; within a transaction that is open, leave its end to it."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
