"""Compare and swap, for many jobs by one statement.

A statement for each job costs the server twice as much as one for all of them: most of it is
planning. So the new documents travel as one constant array, and a single update with a
pipeline lets each stored job look up its own successor, and become it if it may. What may not
stays as it is, and does not count as modified.
Where fewer were modified than asked for, the stamps say which ones; among them are those that an
earlier try has written, when its answer was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document
from shunter.store.mongo.faults import duplicates

MOST_JOBS = 1000
MOST_BYTES = 8 << 20
"""What one statement carries; the server takes no more than 16 MiB of it."""

SEQ_AND_PAYLOAD: Document = {"seq": "$seq", "payload": "$payload"}
"""What a job keeps, whatever takes its place."""

IS_NEXT: Document = {"$eq": ["$$new.revision", {"$add": ["$revision", 1]}]}
"""The condition that the stored job is at the revision before."""


async def swap(
    connection: MongoConnection,
    documents: Mapping[str, RawBSONDocument],
    *,
    stamp: str,
    where: Document,
    condition: Document = IS_NEXT,
    kept: Document = SEQ_AND_PAYLOAD,
    base: Document | None = None,
) -> set[str]:
    """Replace jobs, by their ids, and return those that stand as written here.

    All documents bear `stamp`. `where` says which jobs may be replaced at all. The `condition`
    is asked of each, with `$$new` for its successor and `$$place` for the successor's place.
    The successor is laid over `base`, and what is `kept` over both.
    """
    ids = list(documents)
    result = await connection.jobs.update_many(
        {"_id": {"$in": ids}, **where}, _pipeline(documents, condition, kept, base or {})
    )
    if result.modified_count == len(ids):
        return set(ids)
    mine = {"_id": {"$in": ids}, "stamp": stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}


async def swap_each(
    connection: MongoConnection,
    documents: Mapping[str, RawBSONDocument],
    *,
    stamp: str,
    where: Document,
) -> set[str]:
    """Do as `swap` does, by a statement for each: one that an index refuses stops no other."""
    writes = [
        UpdateOne(
            {"_id": job_id, "revision": document["revision"] - 1, **where},
            [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, SEQ_AND_PAYLOAD]}}],
        )
        for job_id, document in documents.items()
    ]
    try:
        await connection.jobs.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        duplicates(error)
    mine = {"_id": {"$in": list(documents)}, "stamp": stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}


def _pipeline(
    documents: Mapping[str, RawBSONDocument], condition: Document, kept: Document, base: Document
) -> list[Document]:
    place: dict[str, Any] = {"$indexOfArray": [{"$literal": list(documents)}, "$_id"]}
    new = {"$arrayElemAt": [{"$literal": list(documents.values())}, "$$place"]}
    swapped = {"$cond": [condition, {"$mergeObjects": [base, "$$new", kept]}, "$$ROOT"]}
    known = {"$let": {"vars": {"new": new}, "in": swapped}}
    return [{"$replaceWith": {"$let": {"vars": {"place": place}, "in": known}}}]
