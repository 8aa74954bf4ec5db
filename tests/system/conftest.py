"""Fixtures for tests with real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.testing.mongod import LocalMongod
from system.yard import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """A place for the processes of one test."""
    place = Yard(tmp_path)
    try:
        yield place
    finally:
        place.close()


@pytest.fixture(scope="module")
def shared_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A place for processes that the tests of a module share."""
    place = Yard(tmp_path_factory.mktemp("yard"))
    try:
        yield place
    finally:
        place.close()


@pytest.fixture(scope="module")
def mongod() -> Iterator[LocalMongod]:
    with LocalMongod(in_memory=True) as server:
        yield server


@pytest.fixture(params=["sqlite", "mongodb"])
def store_url(request: pytest.FixtureRequest, yard: Yard) -> str:
    """An empty store that several dispatchers can share, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{yard.folder}/shared.db"
    server: LocalMongod = request.getfixturevalue("mongod")
    return server.url(f"t{time.monotonic_ns()}")
