"""Every store, one after the other, behind the same tests."""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.mongo.server import emptied_database
from conformance.store.databases import DATABASES, Database
from shunter.store.memory import MemoryStore
from shunter.store.mongo import MongoStore
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore

Run = Callable[[Coroutine[Any, Any, Any]], Any]

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda directory: MemoryStore(),
    "sqlite": lambda directory: SQLiteStore(str(directory / "jobs.db")),
    "mongo": lambda directory: MongoStore(emptied_database()),
}


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, run: Run) -> Iterator[Store]:
    store = STORES[request.param](tmp_path)
    run(store.open())
    yield store
    run(store.close())


@pytest.fixture(params=DATABASES)
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """Make empty databases of one kind, as many as a test wants."""
    numbers = itertools.count()

    def new() -> Database:
        folder = tmp_path / f"database-{next(numbers)}"
        folder.mkdir()
        return DATABASES[request.param](folder)

    return new


@pytest.fixture
def database(databases: Callable[[], Database]) -> Database:
    return databases()


@pytest.fixture
def opened(run: Run, database: Database) -> Iterator[Callable[[], Store]]:
    """Open stores on the test's database, all of which are closed at its end."""
    stores: list[Store] = []

    def client() -> Store:
        store = database.store()
        run(store.open())
        stores.append(store)
        return store

    yield client
    for store in stores:
        run(store.close())


@pytest.fixture
def lost_sockets() -> Iterator[None]:
    """A driver may leave a socket to the garbage collector where a connection was cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
