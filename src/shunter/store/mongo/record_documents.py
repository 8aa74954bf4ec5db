"""Small documents that dispatchers share. Kind and name are the `_id`, which is in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from shunter.model.record import Record, RecordKind
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document
from shunter.store.mongo.faults import duplicates

_AFTER_SLASH = "0"
"""The character behind the slash: no name of a kind is beyond it."""


async def listed(
    connection: MongoConnection,
    kind: RecordKind,
    *,
    before: str | None,
    limit: int | None,
    names: Sequence[str] | None,
) -> list[Record]:
    """Read records of one kind by falling names."""
    end = f"{kind}{_AFTER_SLASH}" if before is None else f"{kind}/{before}"
    wanted: dict[str, Any] = {"$gt": f"{kind}/", "$lt": end}
    if names is not None:
        wanted["$in"] = [f"{kind}/{name}" for name in names]
    query = connection.records.find({"_id": wanted})
    query = query.sort("_id", -1).limit(limit or 0)
    return [
        Record(
            kind=kind,
            name=found["_id"].partition("/")[2],
            revision=found["revision"],
            document=found["doc"].encode(),
        )
        for found in ([] if limit == 0 else await connection.all_of(query))
    ]


async def swap(connection: MongoConnection, records: Sequence[Record], *, stamp: str) -> list[bool]:
    """Compare and swap; the stamp tells which records stand as written here, also when repeated."""
    if not records:
        return []
    writes: list[InsertOne[Document] | UpdateOne | DeleteOne] = []
    for record in records:
        stored = {"_id": _id(record), "revision": record.revision - 1}
        if record.document is None:
            writes.append(DeleteOne(stored))
            continue
        text = record.document.decode()
        content: dict[str, Any] = {"revision": record.revision, "doc": text, "stamp": stamp}
        if record.revision == 1:
            writes.append(InsertOne({"_id": _id(record), **content}))
        else:
            writes.append(UpdateOne(stored, {"$set": content}))
    try:
        await connection.records.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        duplicates(error)  # to be made, but there already
    named = {"_id": {"$in": [_id(record) for record in records]}}
    stamps = {it["_id"]: it["stamp"] async for it in connection.records.find(named, {"stamp": 1})}
    return [
        _id(record) not in stamps if record.document is None else stamps.get(_id(record)) == stamp
        for record in records
    ]


def _id(record: Record) -> str:
    return f"{record.kind}/{record.name}"
