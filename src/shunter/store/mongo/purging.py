"""Deleting what ended long ago, with its blobs."""

from __future__ import annotations

from shunter.model.job import FINAL
from shunter.store.mongo import blobs
from shunter.store.mongo.connection import MongoConnection


async def purge(connection: MongoConnection, *, ended_before: float, limit: int) -> int:
    """Delete up to `limit` finished jobs, the earliest first, and return how many it were."""
    await blobs.sweep(connection)
    if limit <= 0:
        return 0
    is_over = {"ended": {"$lt": ended_before}, "alarm": {"$exists": False}}
    cursor = connection.jobs.find(is_over, blobs.REFERENCES)
    doomed = await cursor.sort([("ended", 1)]).limit(limit).to_list()
    if not doomed:
        return 0
    ids = [document["_id"] for document in doomed]
    part_ids = [part_id for document in doomed for part_id in blobs.part_ids_of(document)]
    await blobs.loosen(connection, part_ids)
    final = {"_id": {"$in": ids}, "status": {"$in": sorted(FINAL)}}
    result = await connection.jobs.delete_many(final)
    await blobs.remove(connection, part_ids)
    return result.deleted_count
