"""Deleting what ended long ago, with its blobs."""

from __future__ import annotations

from shunter.model.job import FINAL
from shunter.store.mongo import blobs, journal_documents
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import OPEN, Document

MOST_PAGES = 10
"""How often to look further where what ended long ago is still needed."""


async def purge(connection: MongoConnection, *, ended_before: float, limit: int) -> int:
    """Delete up to `limit` finished jobs, the earliest first, and return how many it were."""
    await blobs.sweep(connection)
    if limit <= 0:
        return 0
    doomed = await _doomed(connection, ended_before, limit)
    if not doomed:
        return 0
    ids = [document["_id"] for document in doomed]
    part_ids = [part_id for document in doomed for part_id in blobs.part_ids_of(document)]
    await blobs.loosen(connection, part_ids)
    final = {"_id": {"$in": ids}, "status": {"$in": sorted(FINAL)}}
    result = await connection.jobs.delete_many(final)
    await connection.edges.delete_many({"child": {"$in": ids}})
    await blobs.remove(connection, part_ids)
    await journal_documents.purge(connection, ids)
    return result.deleted_count


async def _doomed(connection: MongoConnection, ended_before: float, limit: int) -> list[Document]:
    """Find what can go, page by page: what a job under way may still ask for is passed over."""
    doomed: list[Document] = []
    is_over: Document = {"ended": {"$lt": ended_before}, "alarm": {"$exists": False}}
    for page in range(MOST_PAGES):
        cursor = connection.jobs.find(is_over, blobs.REFERENCES).sort([("ended", 1)])
        found = await cursor.skip(page * limit).limit(limit).to_list()
        needed = await _needed(connection, [document["_id"] for document in found])
        doomed += [document for document in found if document["_id"] not in needed]
        if len(doomed) >= limit or len(found) < limit:
            break
    return doomed[:limit]


async def _needed(connection: MongoConnection, ids: list[str]) -> set[str]:
    """Return those of these jobs that are parents of one that has not ended."""
    holders = connection.jobs.find(
        {"after.parents": {"$in": ids}, "status": {"$in": OPEN}}, {"after.parents": True}
    )
    needed = {name for it in await holders.to_list() for name in it["after"]["parents"]}
    edges = await connection.edges.find({"parent": {"$in": ids}}).to_list()
    if not edges:
        return needed
    children = list({edge["child"] for edge in edges})
    still_open = connection.jobs.find(
        {"_id": {"$in": children}, "status": {"$in": OPEN}}, {"_id": True}
    )
    names = {job["_id"] for job in await still_open.to_list()}
    return needed | {edge["parent"] for edge in edges if edge["child"] in names}
