"""A connection to the user's MongoDB, or an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import ConfigurationError, ConnectionFailure, PyMongoError

from shunter.errors import FlowError

ANSWER_SECONDS = 5.0


def connected(url: str) -> Database[dict[str, Any]]:
    """Return the database that the URL names, once the server has answered."""
    with mongo_faults(url):
        milliseconds = int(ANSWER_SECONDS * 1000)
        client = MongoClient[dict[str, Any]](
            url, tz_aware=True, serverSelectionTimeoutMS=milliseconds
        )
        try:
            database = client.get_default_database()
            client.admin.command("ping")
        except BaseException:
            client.close()
            raise
        return database


@contextmanager
def mongo_faults(url: str) -> Iterator[None]:
    """Let errors of the server name it and the remedy."""
    try:
        yield
    except ConfigurationError as error:
        raise FlowError(
            f"{_shown(url)}: {error}; a URL is such as mongodb://host:27017/database"
        ) from error
    except ConnectionFailure as error:
        raise FlowError(
            f"{_shown(url)}: the server does not answer ({error}); start it, or give another URL"
        ) from error
    except PyMongoError as error:
        raise FlowError(f"{_shown(url)}: {error}; check the server's rights and state") from error


def _shown(url: str) -> str:
    """The URL without its password."""
    scheme, _, rest = url.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
