"""States on a disk of the executor's: an SQLite file of one task, which nobody else opens.

It may be lost at any time with its task, which begins anew; so nothing is synced.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

from shunter.flow.runtime.bounded_instances import StoredState

_CACHE_KIBIBYTES = 16_384


class SqliteStates:
    """A StateStore. The file is gone when this is closed, or with its process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="shunter-states-")
        path = Path(self._folder.name) / "states.db"
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
            f"PRAGMA cache_size = -{_CACHE_KIBIBYTES};"
            "CREATE TABLE states"
            "(place INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, state BLOB NOT NULL);"
        )

    def put(self, states: Iterable[StoredState]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", states)
        self._db.execute("COMMIT")

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        found: tuple[int, bytes] | None = self._db.execute(
            "SELECT place, state FROM states WHERE key = ?", (key,)
        ).fetchone()
        return found

    def behind(self, place: int, limit: int) -> list[StoredState]:
        return self._db.execute(
            "SELECT place, key, state FROM states WHERE place > ? ORDER BY place LIMIT ?",
            (place, limit),
        ).fetchall()

    def clear(self) -> None:
        self._db.execute("DELETE FROM states")

    def close(self) -> None:
        self._db.close()
        self._folder.cleanup()
