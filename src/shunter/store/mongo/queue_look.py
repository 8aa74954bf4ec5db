"""What is around one job in the queue: a bounded stretch of the index that has it, and places."""

from __future__ import annotations

import asyncio
from typing import Any

from shunter.model.job import Job
from shunter.model.job_limits import lanes_held, texts_between
from shunter.model.lane_claim import LANES_AT_ONCE
from shunter.model.queue_order import rank
from shunter.store.mongo import blobs, lanes
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, Document
from shunter.store.search import LANE_DEEP, QueueLook

_NO_BODIES = {"payload": False, "result": False}


async def queue_look(connection: MongoConnection, job: Job, most: int, deep: int) -> QueueLook:
    """Look at what is around a job."""
    found = await connection.all_of(connection.jobs.find({"_id": job.id}, {"seq": True}))
    seq = found[0]["seq"] if found else 0
    field = "ready" if job.lane is None else "laned"
    of_queue: Document = {"type": job.type} | ({} if job.lane is None else {"lane": job.lane})
    lower = of_queue | {field: {"$gte": LOWEST, "$lt": rank(job)}}
    equal = of_queue | {field: rank(job), "seq": {"$lt": seq}}
    ahead, beside, before = await asyncio.gather(
        _count(connection, lower, field, most),
        _count(connection, equal, field, most),
        _first(connection, lower, equal, field, deep),
    )
    ahead = min(most, ahead + beside)
    if job.lane is None:
        return QueueLook(ahead=ahead, before=before)
    low, high = texts_between(job.type)
    own = f"{job.type} {job.lane} "
    heads, mine, others, totals, total_held = await asyncio.gather(
        _heads(connection, job, deep),
        _placed(connection, "limit_place", own, f"{own[:-1]}!", most),
        _placed(connection, "limit_place", low, high, most),
        _placed(connection, "total_place", low, high, deep),
        _count(connection, {"total_place": {"$gt": low, "$lt": high}}, "total_place", 0),
    )
    held, own_ids = dict[str, int](), list[str]()
    for text in others:
        (lane,) = lanes_held(job.type, [text])
        held[lane] = held.get(lane, 0) + 1
    for text, name in mine.items():
        if lanes_held(job.type, [text]).keys() == {job.lane}:
            own_ids.append(name)
    if own_ids:
        held[job.lane] = len(own_ids)
    placed = dict.fromkeys([*own_ids, *others.values(), *totals.values()])
    return QueueLook(
        ahead=ahead,
        before=before,
        heads=heads,
        held=held,
        total_held=total_held,
        holders=await _jobs(connection, list(placed)[:deep]),
    )


async def _count(connection: MongoConnection, there: Document, index: str, most: int) -> int:
    limit: dict[str, Any] = {"limit": most} if most else {}
    return await connection.patiently(
        lambda: connection.jobs.count_documents(there, hint=index, **limit)
    )


async def _first(
    connection: MongoConnection, lower: Document, equal: Document, field: str, deep: int
) -> list[Job]:
    order = [("type", 1), *([("lane", 1)] if field == "laned" else []), (field, 1), ("seq", 1)]
    found: list[Document] = []
    for where in (lower, equal):
        if left := deep - len(found):
            query = connection.jobs.find(where, _NO_BODIES).sort(order).limit(left).hint(field)
            found += await connection.all_of(query)
    return await blobs.jobs_of(connection, found)


async def _heads(connection: MongoConnection, job: Job, deep: int) -> list[Job]:
    """Return the first jobs of other lanes."""
    stages = lanes.heads(job.type, {"$gte": ""}, LANES_AT_ONCE)

    async def found() -> list[Document]:
        return await (await connection.jobs.aggregate(stages)).to_list()

    seen = sorted(lanes.seen(it["first"]) for it in await connection.patiently(found))
    names = [it.lane for it in seen if it.lane != job.lane][:deep]
    firsts = await lanes.fronts(connection, job.type, names, LANE_DEEP, None)
    return await _jobs(connection, [it.id for it in firsts])


async def _placed(
    connection: MongoConnection, field: str, low: str, high: str, limit: int
) -> dict[str, str]:
    """Return who has which places."""
    query = connection.jobs.find({field: {"$gt": low, "$lt": high}}, {field: True})
    found = await connection.all_of(query.sort([(field, 1)]).limit(limit).hint(field))
    return {it[field]: it["_id"] for it in found}


async def _jobs(connection: MongoConnection, ids: list[str]) -> list[Job]:
    """Read jobs, in this order."""
    if not ids:
        return []
    documents = await connection.all_of(connection.jobs.find({"_id": {"$in": ids}}, _NO_BODIES))
    by_id = {job.id: job for job in await blobs.jobs_of(connection, documents)}
    return [by_id[name] for name in ids if name in by_id]
