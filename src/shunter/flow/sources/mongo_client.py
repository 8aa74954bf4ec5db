"""A connection to the user's MongoDB, or an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import ConfigurationError, ConnectionFailure, PyMongoError

from shunter.errors import FlowError
from shunter.model.redaction import redacted_url, without_secrets_of

ANSWER_SECONDS = 5.0


def connected(url: str) -> Database[dict[str, Any]]:
    """Return the database that the URL names, once the server has answered."""
    with mongo_faults(url):
        milliseconds = int(ANSWER_SECONDS * 1000)
        try:
            client = MongoClient[dict[str, Any]](
                url, tz_aware=True, serverSelectionTimeoutMS=milliseconds
            )
        except (ValueError, OSError) as error:  # of an option, or a certificate's file
            raise _bad_url(url, error) from None
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
        raise _bad_url(url, error) from None
    except ConnectionFailure as error:
        raise FlowError(
            f"{redacted_url(url)}: the server does not answer ({error}); start it, or give "
            "another URL"
        ) from error
    except PyMongoError as error:
        raise FlowError(
            f"{redacted_url(url)}: {error}; check the server's rights and state"
        ) from error


def _bad_url(url: str, error: Exception) -> FlowError:
    """Say what is wrong with a URL; the error itself may have its password."""
    fault = without_secrets_of(url, str(error))
    return FlowError(
        f"{redacted_url(url)}: {fault}; a URL is such as mongodb://host:27017/database"
    )
