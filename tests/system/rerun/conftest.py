"""Databases for jobs to publish to, on a real MongoDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from conformance.mongo.server import new_database


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
def database(url: str) -> Iterator[Database[Any]]:
    with MongoClient[dict[str, Any]](url) as client:
        yield client.get_database()
