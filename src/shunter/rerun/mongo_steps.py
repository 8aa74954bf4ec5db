"""One piece of code for both of pymongo's faces, the blocking and the asynchronous one.

Steps are a generator that yields what a method of pymongo returned and is sent the answer:
with a blocking collection that is the answer itself, with an asynchronous one an awaitable.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database

from shunter.errors import StagingError

T = TypeVar("T")
Steps = Generator[Any, Any, T]
AnyCollection = Collection[Any] | AsyncCollection[Any]
AnyDatabase = Database[Any] | AsyncDatabase[Any]


def is_asynchronous(place: object) -> bool:
    """Tell which face a collection or database has; refuse what is neither."""
    if isinstance(place, Collection | Database):
        return False
    if isinstance(place, AsyncCollection | AsyncDatabase):
        return True
    raise StagingError(
        f"found a {type(place).__name__}; pass pymongo's Collection or AsyncCollection, or the "
        "Database or AsyncDatabase to sweep"
    )


def done(steps: Steps[T]) -> T:
    """Do all steps, blocking."""
    try:
        answer = next(steps)
        while True:
            answer = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def awaited(steps: Steps[T]) -> T:
    """Do all steps, awaiting each."""
    try:
        waits_for = next(steps)
        while True:
            try:
                answer = await waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
