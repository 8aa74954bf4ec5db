"""Databases that several stores share, and what may go wrong with one.

Whoever writes a store adds a `Database` for it: how to open any number of stores on one, how to
lose the answer to a chosen write, and how to make it unreachable. The suite does the rest.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from conformance.mongo.losing import Losses
from conformance.mongo.server import new_database, shared_server
from shunter.store.mongo import MongoStore
from shunter.store.mongo.faults import ATTEMPT_SECONDS
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore
from shunter.store.sqlite.file_monitor import FileChanged

CUT_OFF_SECONDS = 0.2
"""How long a server that can't be reached is waited for."""


class Loss(Protocol):
    """Says whether the chosen write was reached."""

    @property
    def have_happened(self) -> bool: ...


class Database(Protocol):
    """One database, empty at first."""

    is_atomic: bool
    """True if a commit that fails leaves nothing behind. A store for which that is not so must
    say why in docs/decisions.md; its batches must be the same in the end all the same."""

    fewest_writes: int
    """How many writes the batch of `world.py` takes at least; fewer mean that losses miss it."""

    def store(self) -> Store:
        """Return another store on this database, not open, that does not wait for it long."""

    def lose(self, store: Store, *, at: int, is_done: bool) -> Loss:
        """Make the write number `at`, counted from 0, fail as by a lost connection.

        With `is_done` the database has done it, and only the answer is lost.
        """

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Let nobody reach the database for a while."""


class SQLiteDatabase:
    """A file. Statements fail; and the file may be away just after a commit."""

    is_atomic = True
    fewest_writes = 10

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "jobs.db")

    def store(self) -> Store:
        return SQLiteStore(self._path, busy_timeout=5.0)

    def lose(self, store: Store, *, at: int, is_done: bool) -> Loss:
        assert isinstance(store, SQLiteStore)
        faulty = _FaultyConnection(store, at=at, is_done=is_done)
        store.writer._connection = faulty
        return faulty

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        os.rename(self._path, self._path + ".away")
        yield
        os.rename(self._path + ".away", self._path)


class _FaultyConnection:
    def __init__(self, store: SQLiteStore, *, at: int, is_done: bool) -> None:
        self._store, self._at, self._is_done = store, at, is_done
        self._connection = store.writer._connection
        self._count = 0

    @property
    def have_happened(self) -> bool:
        return self._count > self._at

    def execute(self, text: str, *arguments: Any) -> Any:
        number, self._count = self._count, self._count + (text != "ROLLBACK")
        if number != self._at or text == "ROLLBACK":
            return self._connection.execute(text, *arguments)
        if self._is_done:
            answer = self._connection.execute(text, *arguments)
            if text == "COMMIT":  # SQLite never fails after that; but the file may be gone
                self._store.monitor.look_after_commit = self._missing
                return answer
        raise sqlite3.OperationalError("disk I/O error")

    def _missing(self) -> None:
        del self._store.monitor.look_after_commit
        raise FileChanged("the file was away for a moment")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class MongoDatabase:
    """A database on a server. A batch is several writes, each of which may be cut off."""

    is_atomic = False
    fewest_writes = 7

    def __init__(self, directory: Path) -> None:
        self._url = new_database()
        self._stores: list[MongoStore] = []

    def store(self) -> Store:
        self._stores.append(MongoStore(self._url, patience=0.0))
        return self._stores[-1]

    def lose(self, store: Store, *, at: int, is_done: bool) -> Loss:
        assert isinstance(store, MongoStore)
        return Losses(store, at=at, is_done=is_done)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        commands = ["insert", "update", "delete", "find", "aggregate", "getMore", "findAndModify",
                    "count", "distinct", "bulkWrite"]  # fmt: skip
        fault = {"failCommands": commands, "appName": "shunter", "closeConnection": True}
        order = {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": fault}
        used = [it._connection.patiently for it in self._stores if it._connection is not None]
        for patiently in used:
            patiently.attempt_seconds = CUT_OFF_SECONDS
        shared_server().command("admin", order)
        yield
        for patiently in used:
            patiently.attempt_seconds = ATTEMPT_SECONDS
        shared_server().command("admin", {"configureFailPoint": "failCommand", "mode": "off"})


DATABASES: dict[str, Callable[[Path], Database]] = {
    "sqlite": SQLiteDatabase,
    "mongo": MongoDatabase,
}
"""All stores that several dispatchers can share; one in memory can't be."""
