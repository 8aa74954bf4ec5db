"""Which of MongoDB's errors pass by themselves, and what the others mean for the user.

While a primary steps down, restarts or can't be reached, an operation is tried again for a
bounded time. It may have been done already when its error came, so only what is harmless when
repeated may be done by `Patience`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import Any, TypeVar

import pymongo
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    CursorNotFound,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from shunter.errors import StoreError
from shunter.model.retry import Retry, backoff

T = TypeVar("T")

AFTER_FAILURE = Retry(delay=0.01, max_delay=0.25)
ATTEMPT_SECONDS = 5.0
"""How long one try may take, so that a dead connection does not use up all the patience."""

LEAST_SECONDS = 1.0
"""How long one try may take even if no patience is left."""

DUPLICATE_KEY = 11000

PASSING = frozenset({
    6, 7, 64, 75, 89, 91, 100, 112, 133, 134, 189, 202, 234, 239, 246, 262, 317, 358, 384, 9001,
    10058, 10107, 11600, 11602, 13388, 13435, 13436, 50915,
})  # fmt: skip
"""Not the primary, shutting down, stepping down, unreachable, too late, not yet: server codes."""

_REMEDIES = {
    13: "this user may not do that; grant it the role readWrite on the database",
    18: "user or password is wrong; correct store.url, and its authSource where they differ",
    20: "it is not a member of a replica set; start mongod with --replSet, then rs.initiate()",
    31: "an index has another program's options; name another database in store.url",
    59: "the server does not know a command; MongoDB 6.0 or newer is needed",
    8000: "user or password is wrong; correct store.url, and its authSource where they differ",
    10334: "a job is larger than a document may be; shorten its log",
    14031: "the server's disk is full; free some space there, nothing is damaged",
}


class Patience:
    """Does things on a database, again while errors pass, until `seconds` are over.

    With 0 seconds everything is tried once, and that try is not cut short: a busy server is well.
    `attempt_seconds` is how long one try may take, if an action says nothing else.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name, self._seconds = name, seconds
        self.attempt_seconds = ATTEMPT_SECONDS

    async def __call__(
        self, action: Callable[[], Awaitable[T]], *, attempt: float | None = None
    ) -> T:
        """Do it. `attempt` limits one try; with `inf` it may take as long as it wants."""
        attempt = self.attempt_seconds if attempt is None else attempt
        deadline = monotonic() + self._seconds
        failures = 0
        while True:
            try:
                with pymongo.timeout(self._allowed(attempt, deadline - monotonic())):
                    return await action()
            except PyMongoError as error:
                failures += 1
                pause = backoff(AFTER_FAILURE, failures, jitter=0.0)
                if not is_passing(error) or monotonic() + pause >= deadline:
                    raise explained(error, self._name, self._seconds) from error
            await asyncio.sleep(pause)

    def _allowed(self, attempt: float, left: float) -> float | None:
        if attempt == inf:
            return None
        return min(attempt, max(left, LEAST_SECONDS)) if self._seconds else attempt


def is_passing(error: PyMongoError) -> bool:
    """True if the same may succeed a moment later, by the server's doing alone."""
    if isinstance(error, BulkWriteError):
        codes = {fault.get("code") for fault in error.details.get("writeErrors", ())}
        is_unsure = bool(error.details.get("writeConcernErrors"))
        return codes <= PASSING | {DUPLICATE_KEY} and (is_unsure or bool(codes & PASSING))
    if isinstance(error, ConnectionFailure | CursorNotFound | ExecutionTimeout | WriteConcernError):
        return True
    return isinstance(error, OperationFailure) and (
        error.code in PASSING or error.has_error_label("RetryableWriteError")
    )


def duplicates(error: BulkWriteError) -> list[int]:
    """The places of the documents that were refused because their like is there already.

    Raises the error again where it says anything else.
    """
    faults: list[dict[str, Any]] = error.details["writeErrors"]
    is_unsure = bool(error.details.get("writeConcernErrors"))
    if is_unsure or any(fault["code"] != DUPLICATE_KEY for fault in faults):
        raise error
    return [fault["index"] for fault in faults]


def explained(error: PyMongoError, name: str, waited: float) -> StoreError:
    """Say what MongoDB's error means for the user."""
    if isinstance(error, ServerSelectionTimeoutError):
        reason = str(error).partition(", Timeout:")[0]
        return StoreError(
            f"store {name}: no primary answered for {waited:g} s; see that mongod runs there and "
            f"its replica set is initiated and has a majority, or correct store.url ({reason})"
        )
    if is_passing(error):
        return StoreError(
            f"store {name}: it failed for {waited:g} s on end; see to its server: what is tried "
            f"again will not be done twice ({_summary(error)})"
        )
    remedy = _REMEDIES.get(error.code or 0) if isinstance(error, OperationFailure) else None
    summary = _summary(error)
    return StoreError(
        f"store {name}: {remedy} ({summary})" if remedy else f"store {name}: {summary}"
    )


def _summary(error: PyMongoError) -> str:
    if isinstance(error, BulkWriteError):
        faults = [*error.details.get("writeErrors", ()), *error.details["writeConcernErrors"]]
        return "; ".join(sorted({str(fault.get("errmsg")) for fault in faults}))
    return str(error).partition(", full error:")[0] or type(error).__name__
