"""What a claim under limits reads: lanes, their fronts, the places taken, the tokens' buckets.

The server jumps from lane to lane in the index, and of each lane only the front is read. All of it
is a hint: the unique indexes and the compare-and-swap decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from pymongo import UpdateOne

from shunter.model.job_limits import JobLimits, texts_between
from shunter.model.lane_claim import LANES_AT_ONCE, SORTED_AT_ONCE, LaneState
from shunter.model.limits_record import LaneCount
from shunter.model.record import RecordKind
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, Document

WAITS = {"laned": {"$gte": LOWEST}}
_HEAD = {"lane": 1, "laned": 1, "seq": 1, "priority": 1}


class FrontJob(Struct, frozen=True, order=True):
    """A job at the front of its lane; in the order of the queue."""

    rank: int
    seq: int
    id: str
    lane: str
    priority: int


async def sort(connection: MongoConnection, job_type: str, limits: JobLimits) -> int:
    """Put jobs into their lanes that are in none, or in another key's; return how many."""
    where = unsorted(job_type, limits)
    query = connection.newest_jobs.find(where, {"keys": 1, "ready": 1})
    writes = [_into_lane(job, limits) for job in await query.limit(SORTED_AT_ONCE).to_list()]
    if writes:
        await connection.jobs.bulk_write(writes, ordered=False)
    return len(writes)


def unsorted(job_type: str, limits: JobLimits) -> Document:
    """The query for jobs of a type that wait in no lane, or in one of another key."""
    ours = f"{limits.key}="
    strange = [{"$lt": ours}, {"$gte": f"{limits.key}>"}] if limits.key else [{"$gt": ""}]
    return {
        "$or": [
            {"type": job_type, "ready": {"$gte": LOWEST}},
            *({"type": job_type, "lane": lane, **WAITS} for lane in strange),
        ]
    }


def _into_lane(job: Document, limits: JobLimits) -> UpdateOne:
    """Put a job that waits into its lane."""
    field = "ready" if "ready" in job else "laned"
    lane = {"$literal": limits.lane(job.get("keys") or {})}
    moved: Document = {"$set": {"lane": lane, "laned": f"${field}"}}
    waiting = {"_id": job["_id"], field: {"$gte": LOWEST}}
    return UpdateOne(waiting, [moved, {"$unset": "ready"}])


async def taken(connection: MongoConnection, job_type: str, limits: JobLimits) -> LaneState:
    """Read which places of a type are taken."""
    low, high = texts_between(job_type)
    wanted = {"limit_place": limits.per_key, "total_place": limits.total}

    async def texts(field: str) -> list[str]:
        if wanted[field] is None:
            return []
        between = {field: {"$gt": low, "$lt": high}}
        query = connection.newest_jobs.find(between, {"_id": 0, field: 1}, batch_size=10_000)
        return [found[field] for found in await query.to_list()]

    return LaneState.read(job_type, limits, *await asyncio.gather(*map(texts, wanted)))


async def is_waiting(connection: MongoConnection, job_type: str) -> bool:
    """True if any job of a type could be claimed, in a lane or in none."""
    places: list[Document] = [
        {"type": job_type, "lane": {"$gte": ""}, **WAITS},
        {"type": job_type, "ready": {"$gte": LOWEST}},
    ]
    newest = connection.newest_jobs
    found = await asyncio.gather(*(newest.find_one(where, {"_id": True}) for where in places))
    return any(found)


def heads(job_type: str, bounds: Document, limit: int) -> list[Document]:
    """The stages that find the first jobs of lanes, in the order of the lanes."""
    return [
        {"$match": {"type": job_type, "lane": bounds, **WAITS}},
        {"$sort": {"type": 1, "lane": 1, "laned": 1, "seq": 1}},
        {"$group": {"_id": "$lane", "first": {"$first": "$$ROOT"}}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
        {"$project": {f"first.{field}": 1 for field in ("_id", *_HEAD)}},
    ]


async def heads_after(
    connection: MongoConnection, job_type: str, after: str | None
) -> list[FrontJob]:
    """Return the first jobs of lanes from behind `after`, and then from the beginning up to it."""
    spans: list[Document] = [{"$gte": ""}]
    if after is not None:
        spans = [{"$gt": after}, {"$gte": "", "$lte": after}]
    found: list[FrontJob] = []
    for span in spans:
        if left := LANES_AT_ONCE - len(found):
            stages = heads(job_type, span, left)
            cursor = await connection.newest_jobs.aggregate(stages)
            found += [seen(it["first"]) async for it in cursor]
    return found


async def fronts(
    connection: MongoConnection,
    job_type: str,
    lanes: Sequence[str],
    deep: int,
    documents: dict[str, Document] | None,
    below: int | None = None,
) -> list[FrontJob]:
    """Return the first jobs of each of these lanes; all of them into `documents`, if there are."""
    projection = _HEAD if documents is None else None
    queries = [
        connection.newest_jobs.find(
            _waiting(job_type, lane, below), projection, batch_size=deep + 1
        )
        .sort([("laned", 1), ("seq", 1)])
        .limit(deep)
        for lane in lanes
    ]
    found = await asyncio.gather(*(query.to_list() for query in queries))
    if documents is not None:
        documents |= {document["_id"]: document for part in found for document in part}
    return [seen(document) for part in found for document in part]


def _waiting(job_type: str, lane: str | Document, below: int | None) -> Document:
    ranks = {"$gte": LOWEST} if below is None else {"$gte": LOWEST, "$lt": below}
    return {"type": job_type, "lane": lane, "laned": ranks}


async def first_of_all(
    connection: MongoConnection,
    job_type: str,
    lanes: Sequence[str],
    wanted: int,
    below: int | None,
) -> list[Document]:
    """Return the first jobs of all of these lanes, by rank; the server merges them."""
    where = _waiting(job_type, {"$in": list(lanes)}, below)
    query = connection.newest_jobs.find(where, batch_size=wanted + 1)
    return await query.sort([("laned", 1), ("seq", 1)]).limit(wanted).to_list()


async def read_buckets(
    connection: MongoConnection,
    job_type: str,
    state: LaneState,
    lanes: Sequence[str],
    revisions: dict[str, int],
) -> None:
    """Read when starts are due from the buckets of these lanes."""
    buckets = {bucket for lane in lanes if (bucket := state.limits.bucket(lane)) is not None}
    if buckets:
        names = {f"{RecordKind.RATE}/{job_type} {bucket}": bucket for bucket in buckets}
        for it in await connection.records.find({"_id": {"$in": list(names)}}).to_list():
            revisions[names[it["_id"]]] = it["revision"]
            state.next_at[names[it["_id"]]] = float(it["doc"])


async def counts(connection: MongoConnection, limit: int) -> list[LaneCount]:
    """Count the jobs of lanes."""
    group = {"_id": {"type": "$type", "lane": "$lane"}}
    running = {"held": True, "lane": {"$type": "string"}}
    waiting = [
        {"$match": {"type": {"$gte": ""}, "lane": {"$gte": ""}, **WAITS}},
        {"$group": {**group, "waiting": {"$sum": 1}, "running": {"$sum": 0}}},
    ]
    stages: list[Document] = [
        {"$match": running},
        {"$group": {**group, "running": {"$sum": 1}, "waiting": {"$sum": 0}}},
        {"$unionWith": {"coll": connection.jobs.name, "pipeline": waiting}},
        {
            "$group": {
                "_id": "$_id",
                "running": {"$sum": "$running"},
                "waiting": {"$sum": "$waiting"},
            }
        },
        {"$set": {"all": {"$add": ["$running", "$waiting"]}}},
        {"$sort": {"all": -1, "_id.type": 1, "_id.lane": 1}},
        {"$limit": max(limit, 1)},
    ]

    async def counted() -> list[Document]:
        return await (await connection.jobs.aggregate(stages)).to_list()

    found = await connection.patiently(counted) if limit > 0 else []
    return [
        LaneCount(
            type=it["_id"]["type"],
            lane=it["_id"]["lane"],
            running=it["running"],
            waiting=it["waiting"],
        )
        for it in found
    ]


def seen(document: Document) -> FrontJob:
    """A job as the document of one that waits shows it."""
    return FrontJob(
        document["laned"],
        document["seq"],
        document["_id"],
        document["lane"],
        document.get("priority", 0),
    )
