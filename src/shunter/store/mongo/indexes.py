"""The indexes: each holds only the jobs that somebody looks for.

`ready`, `laned`, `alarm`, `deadline`, `parked`, `held`, the places and `ended` are fields of ours
beside the record (`documents.py`), and are there only where they mean something, so an index of
one of them is as short as its list.
Together they know type and status of every job, so that counting jobs reads no document.
"""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from shunter.errors import StoreError

_DUPLICATES = 11000
_NOT_FOUND = 27
_CONFLICTS = frozenset({85, 86, _DUPLICATES})


def _index(name: str, *fields: str, only: dict[str, Any] | None = None) -> IndexModel:
    partial = {} if only is None else {"partialFilterExpression": only}
    return IndexModel([(field, ASCENDING) for field in fields], name=name, **partial)


_THERE = {"$exists": True}

OF_JOBS = [
    _index("seq", "seq"),
    _index("ready", "type", "ready", "seq", only={"ready": _THERE}),
    _index("laned", "type", "lane", "laned", "seq", only={"laned": _THERE}),
    _index("alarm", "alarm", "status", "type", only={"alarm": _THERE}),
    _index("deadline", "deadline", only={"deadline": _THERE}),
    _index("held", "held", "execution.worker_id", "status", "type", "seq", only={"held": _THERE}),
    _index("parked", "parked", "type", "seq", only={"parked": _THERE}),
    _index("after", "after.parents", "_id", only={"after.parents": _THERE}),
    _index("run", "run", "seq", only={"run": _THERE}),
    _index("ended", "ended", "status", "type", only={"ended": _THERE}),
    _index("outcome", "status", "seq", only={"ended": _THERE}),
    IndexModel(
        [("place", ASCENDING)],
        name="place",
        unique=True,
        partialFilterExpression={"place": _THERE},
    ),
    *(
        IndexModel(
            [(field, ASCENDING)],
            name=field,
            unique=True,
            partialFilterExpression={field: _THERE},
        )
        for field in ("limit_place", "total_place")
    ),
    _index("namespace", "namespace", "seq", only={"namespace": _THERE}),
    IndexModel(
        [("unique_key", ASCENDING), ("namespace", ASCENDING)],
        name="named_key",
        unique=True,
        partialFilterExpression={"unique_key": _THERE},
    ),
]

RETIRED_OF_JOBS = ("unique_key",)
"""What older versions made, and now stands in the way: there keys were unique in all namespaces."""

OF_EDGES = [
    _index("dependents", "parent", "child"),
    _index("standings", "child", "outcome"),
]

OF_BLOBS = [_index("loose", "loose", only={"loose": _THERE})]


async def ensure(
    collection: AsyncCollection[dict[str, Any]], indexes: list[IndexModel], *, store: str
) -> None:
    """Create what is missing, and refuse what stands in its place."""
    try:
        await collection.create_indexes(indexes)
    except OperationFailure as error:
        if error.code not in _CONFLICTS:
            raise
        if len(indexes) == 1:
            raise _refusal(collection.name, indexes[0].document["name"], store, error) from error
        for index in indexes:  # one by one, to learn which it is
            await ensure(collection, [index], store=store)


async def retire(collection: AsyncCollection[dict[str, Any]], names: tuple[str, ...]) -> None:
    """Drop what is needed no more; it may be gone already."""
    for name in names:
        try:
            await collection.drop_index(name)
        except OperationFailure as error:
            if error.code != _NOT_FOUND:
                raise


def _refusal(collection: str, name: str, store: str, error: OperationFailure) -> StoreError:
    if error.code == _DUPLICATES:
        fact, remedy = "can't be made", f"delete one of the two documents in its way ({error})"
    else:
        fact = "is not the one that this Shunter needs"
        remedy = (
            f"look at db.{collection}.getIndexes() and drop what stands in its place, for "
            f"example with db.{collection}.dropIndex({name!r}): it is made anew at the next start"
        )
    return StoreError(f"store {store}: index {name!r} of {collection} {fact}; {remedy}")
