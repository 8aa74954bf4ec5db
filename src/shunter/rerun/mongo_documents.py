"""Documents into a collection of the user's MongoDB, such that a repetition changes nothing.

The key must be unique by an index. Without one, two that upsert the same document at once may
both insert it; with one, the server refuses the second, which then finds it and updates it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

from pymongo import ReplaceOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from shunter.errors import StagingError
from shunter.rerun.mongo_steps import AnyCollection, Steps, awaited, done, is_asynchronous

BATCH = 1000

_DUPLICATE_KEY = 11000
_RACES = 10


@overload
def upsert_documents(
    collection: Collection[Any],
    documents: Iterable[Mapping[str, Any]],
    *,
    key: str | Sequence[str] = "_id",
    replace: bool = False,
) -> int: ...


@overload
def upsert_documents(
    collection: AsyncCollection[Any],
    documents: Iterable[Mapping[str, Any]],
    *,
    key: str | Sequence[str] = "_id",
    replace: bool = False,
) -> Awaitable[int]: ...


def upsert_documents(
    collection: AnyCollection,
    documents: Iterable[Mapping[str, Any]],
    *,
    key: str | Sequence[str] = "_id",
    replace: bool = False,
) -> int | Awaitable[int]:
    """Insert documents, or update those whose key is there already; return how many were given.

    Fields that a document does not have stay as they are, or go, with `replace`. `key` names
    fields with a unique index. With an AsyncCollection, await it.
    """
    steps = _upsert(collection, documents, key_fields(key), replace=replace)
    return awaited(steps) if is_asynchronous(collection) else done(steps)


def key_fields(key: str | Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a key, however it was given."""
    fields = (key,) if isinstance(key, str) else tuple(key)
    if not fields:
        raise StagingError("key is empty; name the fields that make a document unique")
    return fields


def check_unique(collection: AnyCollection, fields: tuple[str, ...]) -> Steps[None]:
    """Refuse a key that no unique index guards."""
    if fields == ("_id",):
        return
    indexes = yield collection.index_information()
    for index in indexes.values():
        is_whole = index.get("unique") and "partialFilterExpression" not in index
        if is_whole and {name for name, _ in index["key"]} == set(fields):
            return
    wanted = ", ".join(f"({name!r}, 1)" for name in fields)
    raise StagingError(
        f"{collection.name}: no unique index on {', '.join(fields)}, so two runs at once could "
        f"insert the same document twice; type: collection.create_index([{wanted}], unique=True)"
    )


def _upsert(
    collection: AnyCollection,
    documents: Iterable[Mapping[str, Any]],
    fields: tuple[str, ...],
    *,
    replace: bool,
) -> Steps[int]:
    yield from check_unique(collection, fields)
    count = 0
    make = _replacement if replace else _update
    for batch in _batches(make(document, fields) for document in documents):
        pending = batch
        for race in range(_RACES):
            try:
                yield collection.bulk_write(pending, ordered=False)
                break
            except BulkWriteError as error:
                lost = _lost_races(error, fields)
                if race == _RACES - 1 or lost is None:
                    raise
                pending = [pending[index] for index in lost]
        count += len(batch)
    return count


def _batches(operations: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(operations)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _filter(document: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    for name in fields:
        if name not in document:
            raise StagingError(
                f"a document has no {name!r}, which is part of its key: {document}; give it one"
            )
    return {name: {"$eq": document[name]} for name in fields}


def _replacement(document: Mapping[str, Any], fields: tuple[str, ...]) -> ReplaceOne[Any]:
    return ReplaceOne(_filter(document, fields), document, upsert=True)


def _update(document: Mapping[str, Any], fields: tuple[str, ...]) -> UpdateOne:
    found_by = _filter(document, fields)
    changes = {name: value for name, value in document.items() if name not in fields}
    for name in changes:
        if "." in name or name.startswith("$"):
            raise StagingError(
                f"field {name!r} can't be updated by itself; rename it, or pass replace=True to "
                "write whole documents"
            )
    # An _id beside another key counts where the document is new; it can't be changed later.
    first = {"_id": changes.pop("_id")} if "_id" in changes else {}
    if not changes:
        first |= {name: document[name] for name in fields}
    update = {"$set": changes, "$setOnInsert": first}
    return UpdateOne(found_by, {order: what for order, what in update.items() if what}, upsert=True)


def _lost_races(error: BulkWriteError, fields: tuple[str, ...]) -> list[int] | None:
    """Return which operations found that another had just inserted their key.

    None if there is any other error among them, which trying again won't change.
    """
    failed = error.details["writeErrors"]
    for found in failed:
        pattern = found.get("keyPattern")
        if found["code"] != _DUPLICATE_KEY or (pattern is not None and set(pattern) != set(fields)):
            return None
    if error.details.get("writeConcernErrors"):
        return None
    return [found["index"] for found in failed]
