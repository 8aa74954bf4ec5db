"""Checkpoints in a database, for flows whose engines or deployers have no folder in common.

An SQLite file, or a MongoDB database (`mongo_checkpoints.py`). Each checkpoint is there as a whole
or not at all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from shunter.errors import FlowError
from shunter.flow.runners.checkpoint_folder import KEPT, Checkpoints
from shunter.flow.runtime.checkpoint import Checkpoint, CheckpointStore, decoded, encoded

T = TypeVar("T")

BUSY_SECONDS = 10.0

_TABLE = """
CREATE TABLE IF NOT EXISTS flow_checkpoints (
    flow TEXT NOT NULL, number INTEGER NOT NULL, kept BLOB NOT NULL, PRIMARY KEY (flow, number)
)
"""


def checkpoint_store(
    where: str | os.PathLike[str] | CheckpointStore | None, flow: str
) -> CheckpointStore | None:
    """Return a store as it is, and open what a path or URL names."""
    if where is None or isinstance(where, str):
        return None if where is None else checkpoints_at(where, flow)
    return Checkpoints(where) if isinstance(where, os.PathLike) else where


def checkpoints_at(where: str, flow: str) -> CheckpointStore:
    """Open what a user named: a folder, sqlite:///FILE or mongodb://HOST/DATABASE."""
    scheme, separator, rest = where.partition("://")
    if not separator:
        return Checkpoints(where)
    if scheme == "sqlite":
        return SqliteCheckpoints(Path(rest.removeprefix("/")), flow)
    if scheme in ("mongodb", "mongodb+srv"):
        from shunter.flow.runners.mongo_checkpoints import MongoCheckpoints

        return MongoCheckpoints(where, flow)
    raise FlowError(
        f"checkpoints can't be kept at {where!r}; name a folder, sqlite:///FILE or "
        "mongodb://HOST/DATABASE"
    )


class SqliteCheckpoints:
    """In a table of an SQLite file; it may be the one that jobs are kept in."""

    def __init__(self, path: Path, flow: str) -> None:
        self._path, self._flow = path, flow
        self._do(lambda database: database.execute(_TABLE))

    def keep(self, kept: Checkpoint) -> None:
        row = (self._flow, kept.number, encoded(kept))

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO flow_checkpoints VALUES (?, ?, ?)", row)
            database.execute(
                "DELETE FROM flow_checkpoints WHERE flow = ? AND number <= ?",
                (self._flow, kept.number - KEPT),
            )

        self._do(write)

    def latest(self) -> Checkpoint | None:
        query = "SELECT kept FROM flow_checkpoints WHERE flow = ? ORDER BY number DESC LIMIT 1"
        row = self._do(lambda database: database.execute(query, (self._flow,)).fetchone())
        return None if row is None else decoded(row[0], self._name)

    def clear(self) -> None:
        self._do(
            lambda database: database.execute(
                "DELETE FROM flow_checkpoints WHERE flow = ?", (self._flow,)
            )
        )

    @property
    def _name(self) -> str:
        return f"of flow {self._flow!r} in {self._path}"

    def _do(self, action: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as database, database:
                database.execute("PRAGMA synchronous = FULL")
                return action(database)
        except sqlite3.Error as error:
            raise FlowError(
                f"the checkpoints {self._name} can't be read or written: {error}; see that the "
                "folder is there and may be written to, or name another place"
            ) from error
