"""Stores on databases of their own, and several clients of one."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from conformance.mongo.server import new_database, shared_server
from shunter.store.mongo import MongoStore
from shunter.testing.mongod import LocalMongod

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def mongod() -> LocalMongod:
    return shared_server()


@pytest.fixture
def url(mongod: LocalMongod) -> str:
    return new_database()


@pytest.fixture
def opened(run: Run, url: str) -> Iterator[Callable[..., MongoStore]]:
    """Open clients of the test's database, all of which are closed at its end."""
    stores = []

    def client(**options: Any) -> MongoStore:
        store = MongoStore(url, **options)
        run(store.open())
        stores.append(store)
        return store

    yield client
    for store in stores:
        run(store.close())


@pytest.fixture
def lost_sockets() -> Iterator[None]:
    """pymongo leaves the socket to the garbage collector where a connect is given up half-way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def store(opened: Callable[..., MongoStore]) -> MongoStore:
    return opened()
