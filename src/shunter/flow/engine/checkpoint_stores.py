"""Checkpoints in a database, for flows whose engines or deployers have no folder in common.

An SQLite file, or a MongoDB database, where they lie in GridFS. Each checkpoint is there as a
whole or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import gridfs
from pymongo import DESCENDING, MongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.synchronous.database import Database
from pymongo.write_concern import WriteConcern

from shunter.errors import FlowError
from shunter.flow.engine.checkpoints import KEPT, Checkpoints, Kept, decoded, encoded

T = TypeVar("T")
Document = dict[str, Any]

BUSY_SECONDS = 10.0

_TABLE = """
CREATE TABLE IF NOT EXISTS flow_checkpoints (
    flow TEXT NOT NULL, number INTEGER NOT NULL, kept BLOB NOT NULL, PRIMARY KEY (flow, number)
)
"""


class KeepsCheckpoints(Protocol):
    """Where the checkpoints of one flow are."""

    def keep(self, kept: Kept) -> None:
        """Keep one more, and drop those that are too old."""

    def latest(self) -> Kept | None:
        """Return the newest, or None where there is none."""

    def clear(self) -> None:
        """Forget all: the run is over."""


def checkpoints_at(where: str, flow: str) -> KeepsCheckpoints:
    """Open what a user named: a folder, sqlite:///FILE or mongodb://HOST/DATABASE."""
    scheme, separator, rest = where.partition("://")
    if not separator:
        return Checkpoints(where)
    if scheme == "sqlite":
        return SqliteCheckpoints(Path(rest.removeprefix("/")), flow)
    if scheme in ("mongodb", "mongodb+srv"):
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

    def keep(self, kept: Kept) -> None:
        row = (self._flow, kept.number, encoded(kept))

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO flow_checkpoints VALUES (?, ?, ?)", row)
            database.execute(
                "DELETE FROM flow_checkpoints WHERE flow = ? AND number <= ?",
                (self._flow, kept.number - KEPT),
            )

        self._do(write)

    def latest(self) -> Kept | None:
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


class MongoCheckpoints:
    """In a bucket of GridFS, acknowledged by a majority."""

    def __init__(self, url: str, flow: str) -> None:
        self._url, self._flow = url, flow
        self._do(lambda bucket: bucket.files.find_one({}))

    def keep(self, kept: Kept) -> None:
        def write(bucket: _Bucket) -> None:
            bucket.put(encoded(kept), filename=self._flow, number=kept.number)
            bucket.drop({"filename": self._flow, "number": {"$lte": kept.number - KEPT}})

        self._do(write)

    def latest(self) -> Kept | None:
        newest_first = [("number", DESCENDING), ("_id", DESCENDING)]

        def read(bucket: _Bucket) -> bytes | None:
            newest = bucket.files.find_one({"filename": self._flow}, sort=newest_first)
            return None if newest is None else bucket.get(newest["_id"]).read()

        body = self._do(read)
        return None if body is None else decoded(body, f"of flow {self._flow!r} in MongoDB")

    def clear(self) -> None:
        self._do(lambda bucket: bucket.drop({"filename": self._flow}))

    def _do(self, action: Callable[[_Bucket], T]) -> T:
        try:
            with MongoClient[Document](
                self._url, appname="shunter", serverSelectionTimeoutMS=10_000
            ) as client:
                return action(_Bucket(client.get_default_database()))
        except (PyMongoError, gridfs.errors.GridFSError, ValueError) as error:
            raise FlowError(
                f"the checkpoints of flow {self._flow!r} can't be read or written in MongoDB: "
                f"{error}; see that the server is there, and that the URL names a database"
            ) from error


class _Bucket(gridfs.GridFS):
    def __init__(self, database: Database[Document]) -> None:
        majority = database.with_options(
            write_concern=WriteConcern(w="majority", j=True), read_concern=ReadConcern("majority")
        )
        super().__init__(majority, collection="flow_checkpoints")
        self.files = majority["flow_checkpoints.files"]

    def drop(self, which: Document) -> None:
        for found in self.files.find(which, {"_id": True}):
            self.delete(found["_id"])
