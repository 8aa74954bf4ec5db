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

from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import Document

MOST_JOBS = 1000
MOST_BYTES = 8 << 20
"""What one statement carries; the server takes no more than 16 MiB of it."""

SEQ_AND_PAYLOAD: Document = {"seq": "$seq", "payload": "$payload"}
"""What a job keeps, whatever takes its place."""

IS_NEXT: Document = {"$eq": ["$$new.revision", {"$add": ["$revision", 1]}]}
"""The condition that the stored job is at the revision before."""


async def swap(
    connection: Connection,
    documents: Mapping[str, RawBSONDocument],
    *,
    stamp: str,
    where: Document,
    condition: Document = IS_NEXT,
    kept: Document = SEQ_AND_PAYLOAD,
) -> set[str]:
    """Replace jobs, by their ids, and return those that stand as written here.

    All documents bear `stamp`. `where` says which jobs may be replaced at all. The `condition`
    is asked of each, with `$$new` for its successor and `$$place` for the successor's place.
    """
    ids = list(documents)
    result = await connection.jobs.update_many(
        {"_id": {"$in": ids}, **where}, _pipeline(documents, condition, kept)
    )
    if result.modified_count == len(ids):
        return set(ids)
    mine = {"_id": {"$in": ids}, "stamp": stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}


def _pipeline(
    documents: Mapping[str, RawBSONDocument], condition: Document, kept: Document
) -> list[Document]:
    place: dict[str, Any] = {"$indexOfArray": [{"$literal": list(documents)}, "$_id"]}
    new = {"$arrayElemAt": [{"$literal": list(documents.values())}, "$$place"]}
    swapped = {"$cond": [condition, {"$mergeObjects": ["$$new", kept]}, "$$ROOT"]}
    known = {"$let": {"vars": {"new": new}, "in": swapped}}
    return [{"$replaceWith": {"$let": {"vars": {"place": place}, "in": known}}}]
