"""What one round of a claim under limits tries to write, and how it is written.

Each job is written if it still bears the stamp under which it was seen; of two bids for the same
place the unique index refuses one.
"""

from __future__ import annotations

from bson.raw_bson import RawBSONDocument
from msgspec import Struct
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from shunter.model.place_guess import PlaceGuess
from shunter.model.record import Record
from shunter.store.mongo import lanes
from shunter.store.mongo.blobs import Found
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.faults import duplicates
from shunter.store.mongo.swaps import KEPT, swap


class LaneBid(Struct):
    """Jobs that were chosen, as they are to be, each with the stamp under which it was seen."""

    stamp: str
    documents: dict[str, RawBSONDocument] = {}
    seen: dict[str, str] = {}
    found: dict[str, Found] = {}
    buckets: list[Record] = []
    has_tokens: bool = False
    guess: PlaceGuess | None = None
    is_guess: bool = False
    is_all: bool = False
    is_empty: bool = False


async def written(connection: MongoConnection, bid: LaneBid) -> set[str]:
    """Write the jobs that are still as they were seen; return those that stand as written here.

    By few statements; where a place is another job's already, by one for each.
    """
    if not bid.documents:
        return set()
    kept = {**KEPT, "result": "$result"}
    try:
        return await swap(
            connection,
            bid.documents,
            stamp=bid.stamp,
            where=lanes.WAITS,
            seen=bid.seen,
            kept=kept,
        )
    except BulkWriteError as error:
        duplicates(error)  # another claim has taken the place
    writes = [
        UpdateOne(
            {"_id": job_id, "stamp": bid.seen[job_id], **lanes.WAITS},
            [{"$replaceWith": {"$mergeObjects": [{"$literal": document}, kept]}}],
        )
        for job_id, document in bid.documents.items()
    ]
    try:
        await connection.jobs.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        duplicates(error)
    mine = {"_id": {"$in": list(bid.documents)}, "stamp": bid.stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}
