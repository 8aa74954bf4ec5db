"""Every store, one after the other, behind the same tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.mongo.server import new_database
from shunter.store.memory import MemoryStore
from shunter.store.mongo import MongoStore
from shunter.store.port import Store
from shunter.store.sqlite import SQLiteStore

Run = Callable[[Coroutine[Any, Any, Any]], Any]

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda directory: MemoryStore(),
    "sqlite": lambda directory: SQLiteStore(str(directory / "jobs.db")),
    "mongo": lambda directory: MongoStore(new_database()),
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
