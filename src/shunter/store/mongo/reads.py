"""What is read, by the indexes that are there for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pymongo.read_concern import ReadConcern

from shunter.model.job import FINAL, Job, Status
from shunter.model.queue_order import AT_ONCE
from shunter.store.mongo import blobs
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, OPEN, Document
from shunter.store.port import Backlog, JobQuery

EVER = float("-inf")
"""No time is before it: `{"$gte": EVER}` says "there", in words that let the index answer."""

MOST_IDS = 1000

_NO_PAYLOAD = {"payload": False}
_NO_BODIES = {"payload": False, "result": False}


async def get(
    connection: MongoConnection, ids: Sequence[str], *, payload: bool
) -> list[Job | None]:
    found: dict[str, Job] = {}
    projection = None if payload else _NO_PAYLOAD
    for start in range(0, len(ids), MOST_IDS):
        wanted = {"_id": {"$in": list(ids[start : start + MOST_IDS])}}
        for job in await _jobs(connection, wanted, projection):
            found[job.id] = job
    return [found.get(job_id) for job_id in ids]


async def revisions(connection: MongoConnection, ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(ids), MOST_IDS):
        wanted = {"_id": {"$in": list(ids[start : start + MOST_IDS])}}
        query = connection.jobs.find(wanted, {"revision": True}, batch_size=MOST_IDS)
        found |= {each["_id"]: each["revision"] for each in await connection.all_of(query)}
    return found


async def find(connection: MongoConnection, query: JobQuery) -> list[Job]:
    if query.limit <= 0:
        return []
    wanted: Document = {}
    if query.status is not None:
        wanted["status"] = query.status.value
    if query.status in (Status.DISPATCHING, Status.IN_PROGRESS):
        wanted["held"] = True
    if query.status is Status.WAITING:
        wanted["parked"] = True
    if query.run is not None:
        wanted["run"] = query.run
    if query.status in FINAL:
        wanted["ended"] = {"$gte": EVER}
    if query.type is not None:
        wanted["type"] = query.type
    if query.worker_id is not None:
        wanted["execution.worker_id"] = query.worker_id
    if query.namespace is not None:
        wanted["namespace"] = query.namespace or None  # null finds what is not there
    if query.before is not None:
        named = {"_id": query.before} | {k: wanted[k] for k in wanted if k == "namespace"}
        last = await connection.patiently(lambda: connection.jobs.find_one(named, {"seq": True}))
        if last is None:
            return []
        wanted["seq"] = {"$lt": last["seq"]}
    return await _jobs(connection, wanted, _NO_BODIES, order=("seq", -1), limit=query.limit)


async def held_by(connection: MongoConnection, worker_ids: Iterable[str]) -> list[Job]:
    return await _jobs(connection, held(worker_ids), _NO_PAYLOAD, order=("seq", 1))


async def alarms(connection: MongoConnection, *, now: float, limit: int) -> list[Job]:
    if limit <= 0:
        return []
    due = {"alarm": {"$lte": now}, "status": {"$in": OPEN}}
    return await _jobs(connection, due, _NO_PAYLOAD, order=("alarm", 1), limit=limit)


async def due_callbacks(connection: MongoConnection, *, now: float, limit: int) -> list[Job]:
    if limit <= 0:
        return []
    due = {"alarm": {"$gt": AT_ONCE, "$lte": now}, "status": {"$in": sorted(FINAL)}}
    return await _jobs(connection, due, _NO_BODIES, order=("alarm", 1), limit=limit)


async def due_dependents(connection: MongoConnection, *, limit: int) -> list[Job]:
    if limit <= 0:
        return []
    due = {"alarm": AT_ONCE, "status": {"$in": sorted(FINAL)}}
    return await _jobs(connection, due, _NO_BODIES, limit=limit)


async def overdue(connection: MongoConnection, *, now: float, limit: int) -> list[Job]:
    if limit <= 0:
        return []
    late = {"deadline": {"$lte": now}}
    return await _jobs(connection, late, _NO_BODIES, order=("deadline", 1), limit=limit)


async def next_alarm(connection: MongoConnection) -> float | None:
    query = connection.jobs.find({"alarm": {"$gte": EVER}}, {"_id": False, "alarm": True})
    query = query.sort([("alarm", 1)]).limit(1)
    found = await connection.all_of(query)
    return float(found[0]["alarm"]) if found else None


COUNTED: list[Document] = [
    {"type": {"$gte": ""}, "ready": {"$gte": LOWEST}},
    {"alarm": {"$gte": EVER}, "status": "q"},
    {"held": True},
    {"ended": {"$gte": EVER}},
    {"type": {"$gte": ""}, "lane": {"$gte": ""}, "laned": {"$gte": LOWEST}},
    {"parked": True},
]
"""Six lists in which every job stands once; an index knows type and status of each."""

ENDED = 3
"""Which of them holds what has ended."""


def counting(place: int) -> list[Document]:
    """The pipeline that counts one of these lists."""
    status = "q" if place in (0, 4) else "w" if place == 5 else "$status"
    return [
        {"$match": COUNTED[place]},
        {"$group": {"_id": {"type": "$type", "status": status}, "count": {"$sum": 1}}},
    ]


async def backlog(connection: MongoConnection, is_ended: bool | None) -> list[Backlog]:
    first, *others = (it for it in range(len(COUNTED)) if is_ended in (None, it == ENDED))
    rest = [
        {"$unionWith": {"coll": connection.jobs.name, "pipeline": counting(place)}}
        for place in others
    ]

    at_one_moment = connection.jobs.with_options(read_concern=ReadConcern("snapshot"))

    async def counted() -> list[Document]:
        return await (await at_one_moment.aggregate([*counting(first), *rest])).to_list()

    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    for found in await connection.patiently(counted):
        counts[found["_id"]["type"], found["_id"]["status"]] += found["count"]
    return [
        Backlog(type=kind, status=Status(status), count=count)
        for (kind, status), count in sorted(counts.items())
    ]


async def oldest(connection: MongoConnection) -> dict[str, float]:
    """First the front of each type, from the index alone, then those few jobs."""
    fronts = [
        {"$match": COUNTED[0]},
        {"$group": {"_id": "$type", "first": {"$min": "$seq"}}},
        {
            "$unionWith": {
                "coll": connection.jobs.name,
                "pipeline": [
                    {"$match": COUNTED[4]},
                    {"$group": {"_id": "$type", "first": {"$min": "$seq"}}},
                ],
            }
        },
        {"$group": {"_id": "$_id", "first": {"$min": "$first"}}},
    ]

    async def first_of_each() -> list[Document]:
        return await (await connection.jobs.aggregate(fronts)).to_list()

    seqs = [found["first"] for found in await connection.patiently(first_of_each)]
    query = connection.jobs.find({"seq": {"$in": seqs}}, {"type": True, "created": True})
    return {found["type"]: found["created"] for found in await connection.all_of(query)}


def held(worker_ids: Iterable[str] | None) -> Document:
    """The jobs in progress on these workers, or on any."""
    holder: Any = {"$type": "string"} if worker_ids is None else {"$in": list(worker_ids)}
    return {"held": True, "execution.worker_id": holder, "status": "i"}


async def _jobs(
    connection: MongoConnection,
    wanted: Document,
    projection: Document | None,
    *,
    order: tuple[str, int] | None = None,
    limit: int = 0,
) -> list[Job]:
    query = connection.jobs.find(wanted, projection, batch_size=1000).limit(limit)
    if order is not None:
        query = query.sort([order])
    return await blobs.jobs_of(connection, await connection.all_of(query))
