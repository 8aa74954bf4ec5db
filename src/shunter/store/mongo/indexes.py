"""The indexes: each holds only the jobs that somebody looks for.

`ready`, `alarm`, `held` and `ended` are fields of ours beside the record (`documents.py`), and
are there only where they mean something, so an index of one of them is as short as its list.
Together they know type and status of every job, so that counting jobs reads no document.
"""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from shunter.errors import StoreError

_CONFLICTS = frozenset({85, 86, DUPLICATES := 11000})


def _index(name: str, *fields: str, only: dict[str, Any] | None = None) -> IndexModel:
    partial = {} if only is None else {"partialFilterExpression": only}
    return IndexModel([(field, ASCENDING) for field in fields], name=name, **partial)


_THERE = {"$exists": True}

OF_JOBS = [
    _index("seq", "seq"),
    _index("ready", "type", "ready", "seq", only={"ready": _THERE}),
    _index("alarm", "alarm", "status", "type", only={"alarm": _THERE}),
    _index(
        "held", "held", "execution.worker_id", "status", "type", "seq", only={"held": _THERE}
    ),
    _index("ended", "ended", "status", "type", only={"ended": _THERE}),
    IndexModel(
        [("unique_key", ASCENDING)],
        name="unique_key",
        unique=True,
        partialFilterExpression={"unique_key": _THERE},
    ),
]

OF_BLOBS = [_index("loose", "loose", only={"loose": _THERE})]


async def ensure(
    collection: AsyncCollection[dict[str, Any]], indexes: list[IndexModel], *, store: str
) -> None:
    """Create what is missing, and refuse what stands in its place."""
    for index in indexes:
        name = index.document["name"]
        try:
            await collection.create_indexes([index])
        except OperationFailure as error:
            if error.code not in _CONFLICTS:
                raise
            if error.code == DUPLICATES:
                fact = "can't be made, two documents have the same value"
                remedy = f"delete one of them ({error})"
            else:
                fact = "is not the one that this Shunter needs, or another stands in its place"
                there = f"db.{collection.name}.getIndexes()"
                drop = f"db.{collection.name}.dropIndex({name!r})"
                remedy = f"compare {there}, then type {drop}: it is made anew at the next start"
            raise StoreError(
                f"store {store}: index {name!r} of {collection.name} {fact}; {remedy}"
            ) from error
