"""How a database file is opened: its settings, its schema's version, and what its errors mean.

Every connection is used by one thread alone. Transactions are begun and ended by hand.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from shunter.errors import StoreError
from shunter.model.retry import Retry, backoff

T = TypeVar("T")

APPLICATION_ID = 0x53484E54
"""Stands in the file's header, so that nobody takes our file for theirs, nor we theirs."""

OLDEST_SQLITE = (3, 38)  # STRICT tables, format()

_REMEDIES = {
    "SQLITE_BUSY": "another process keeps it locked; end what holds it (a backup, a shell with "
    "an open transaction), or give a longer busy_timeout",
    "SQLITE_FULL": "the disk is full; free some space, nothing is damaged",
    "SQLITE_CANTOPEN": "it can't be opened; create its directory, or allow this user to write it",
    "SQLITE_READONLY": "this user may not write it; change its owner or mode, or its directory's",
    "SQLITE_NOTADB": "it is not an SQLite database; name another file in store.url",
    "SQLITE_CORRUPT": "it is damaged; stop its dispatchers, then type: shunter doctor --store "
    "--repair",
}


def connect(
    path: str, *, busy_timeout: float, cache_mebibytes: int, is_new: bool = True
) -> sqlite3.Connection:
    """Open the file with all the settings that the store's promises rest on.

    Unless it may be a new one, the file must be there.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"store {path}: this Python has SQLite {sqlite3.sqlite_version}, and {needed} or "
            "later is needed; use a newer Python build"
        )
    if is_new:
        _make_private(path)
    connection = sqlite3.connect(
        path if is_new else existing(path),
        uri=not is_new,
        timeout=busy_timeout,
        isolation_level=None,
        cached_statements=256,
    )
    try:
        mode = patiently(
            lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], busy_timeout
        )
        if mode != "wal":
            raise StoreError(
                f"store {path}: this file system can't do write-ahead logging (it offers "
                f"{mode!r}); put the file on a local disk"
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{cache_mebibytes * 1024}")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: str) -> None:
    """Make the file, if it is not there, for this user alone; others may read payloads in it."""
    with suppress(OSError):  # whatever is wrong, SQLite says it better
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def existing(path: str) -> str:
    """Return the URI by which SQLite opens a file, and makes none."""
    return f"{Path(path).absolute().as_uri()}?mode=rw"


def migrations() -> list[str]:
    """Return the scripts that lead from an empty file to the current schema, in order."""
    text = files("shunter.store.sqlite").joinpath("schema.sql").read_text("utf-8")
    _, *scripts = re.split(r"^-- version \d+$", text, flags=re.MULTILINE)
    return scripts


def migrate(
    connection: sqlite3.Connection, path: str, scripts: Sequence[str], *, is_new: bool = True
) -> None:
    """Bring the file's schema up to date, or refuse a file that is not for us to touch.

    Unless it may be a new one, it must not be empty.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if owner != APPLICATION_ID and (version or tables):
            raise StoreError(
                f"store {path}: the file is another program's database; "
                "name another file in store.url"
            )
        if not (is_new or version):
            raise StoreError(
                f"store {path}: an empty file was put in its place; put back the old one or a "
                "backup, or restart the dispatchers to begin with an empty one"
            )
        if version > len(scripts):
            raise StoreError(
                f"store {path}: its schema has version {version} and this Shunter knows version "
                f"{len(scripts)}; install the newer Shunter that wrote it, or use another file"
            )
        for script in scripts[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        if version < len(scripts):
            connection.execute(f"PRAGMA user_version = {len(scripts)}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """Split a script; `executescript` would commit what was begun."""
    statements = [""]
    for line in script.splitlines(keepends=True):
        statements[-1] += line
        if sqlite3.complete_statement(statements[-1]):
            statements.append("")
    return statements[:-1]


WHILE_BUSY = Retry(delay=0.002, max_delay=0.1)


def patiently(action: Callable[[], T], busy_timeout: float) -> T:
    """Do it, and again while the database is locked, until `busy_timeout` has passed.

    SQLite waits by itself in most cases; in some it says at once that it is busy.
    """
    deadline = time.monotonic() + busy_timeout
    tries = 0
    while True:
        tries += 1
        pause = backoff(WHILE_BUSY, tries, jitter=0.0)
        try:
            return action()
        except sqlite3.OperationalError as error:
            if code_of(error) != "SQLITE_BUSY" or time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause)


def explained(error: sqlite3.Error, path: str) -> StoreError:
    """Say what SQLite's error means for the user."""
    remedy = _REMEDIES.get(code_of(error))
    return StoreError(f"store {path}: {remedy} ({error})" if remedy else f"store {path}: {error}")


def code_of(error: sqlite3.Error) -> str:
    """The error's primary code: extended ones have it as their beginning."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
