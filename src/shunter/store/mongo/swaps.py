"""Compare and swap, for many jobs by one command.

A statement for each job costs the server twice as much as one for many of them: most of it is
planning. So the new documents travel as a constant array, and an update with a pipeline lets each
stored job look up its own successor, and become it if it may. What may not stays as it is, and
does not count as modified.
The server copies that array for each job that looks into it: with a thousand jobs in one statement
that was a fifth of all its work. So a statement has few, and a command has many statements.
Where fewer were modified than asked for, the stamps say which ones; among them are those that an
earlier try has written, when its answer was lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from bson.raw_bson import RawBSONDocument
from pymongo import UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError

from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document
from shunter.store.mongo.faults import duplicates

MOST_JOBS = 1000
MOST_BYTES = 8 << 20
"""What one command carries; the server takes no more than 16 MiB of a statement."""

JOBS_A_STATEMENT = 64
"""Where planning a statement and copying its array cost about the same."""

KEPT: Document = {"seq": "$seq", "payload": "$payload", "after": "$after"}
"""What a job keeps, whatever takes its place."""

_IS_NEXT: Document = {"$eq": ["$$new.revision", {"$add": ["$revision", 1]}]}
"""The condition that the stored job is at the revision before."""


async def swap(
    connection: MongoConnection,
    documents: Mapping[str, RawBSONDocument],
    *,
    stamp: str,
    where: Document,
    seen: Mapping[str, str] | None = None,
    kept: Document = KEPT,
    base: Document | None = None,
) -> set[str]:
    """Replace jobs, by their ids, and return those that stand as written here.

    All documents bear `stamp`. `where` says which jobs may be replaced at all. A job is replaced if
    it is at the revision before; with `seen`, if it still bears the stamp that was seen on it.
    The successor is laid over `base`, and what is `kept` over both.
    """
    ids = list(documents)
    parts = (ids[at : at + JOBS_A_STATEMENT] for at in range(0, len(ids), JOBS_A_STATEMENT))
    writes = [
        UpdateMany(
            {"_id": {"$in": part}, **where}, _pipeline(part, documents, seen, kept, base or {})
        )
        for part in parts
    ]
    result = await connection.jobs.bulk_write(writes, ordered=False)
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
            [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, KEPT]}}],
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
    ids: list[str],
    documents: Mapping[str, RawBSONDocument],
    seen: Mapping[str, str] | None,
    kept: Document,
    base: Document,
) -> list[Document]:
    place: Document = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    new = {"$arrayElemAt": [{"$literal": [documents[job_id] for job_id in ids]}, "$$place"]}
    condition = _IS_NEXT
    if seen is not None:
        stamps = {"$literal": [seen[job_id] for job_id in ids]}
        condition = {"$eq": ["$stamp", {"$arrayElemAt": [stamps, "$$place"]}]}
    swapped = {"$cond": [condition, {"$mergeObjects": [base, "$$new", kept]}, "$$ROOT"]}
    known = {"$let": {"vars": {"new": new}, "in": swapped}}
    return [{"$replaceWith": {"$let": {"vars": {"place": place}, "in": known}}}]
