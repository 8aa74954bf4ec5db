"""Searches for people: each query is led by an index, and reads a bounded stretch of it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from shunter.model.job import FINAL, Job, Status
from shunter.store.mongo import blobs
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, Document
from shunter.store.search import (
    COUNTED_OF_A_RUN,
    MOST_TYPES,
    JobSearch,
    JobsSeen,
    QueueDepth,
    RunSearch,
    RunsSeen,
    RunSummary,
)

_EVER = float("-inf")
NEAR_ENOUGH = 100_000_000
"""Numbers are nanoseconds: a tenth of a second more to look through costs less than to find out."""

_NO_BODIES = {"payload": False, "result": False}
_OF_RUN = dict.fromkeys(("status", "namespace", "workflow", "created", "ended"), True)
_QUEUES = (("ready", "ready"), ("laned", "laned"))
"""The indexes that hold what can be claimed, and the field that has its rank."""


async def depths(connection: MongoConnection, most: int) -> list[QueueDepth]:
    """Count what has not ended, by type."""
    waiting: dict[str, int] = {}
    oldest: dict[str, float] = {}
    for index, field in _QUEUES:
        for kind in await _types(connection, index, field):
            there = _waits(index, field, kind)
            count = await _count(connection, there, index, most)
            waiting[kind] = min(most, waiting.get(kind, 0) + count)
            query = connection.jobs.find(there, {"created": True}).sort(_order(index)).limit(1)
            for first in await connection.all_of(query.hint(index)):
                oldest[kind] = min(first["created"], oldest.get(kind, first["created"]))
    delayed = await _by_type(connection, {"alarm": {"$gte": _EVER}, "status": "q"}, "alarm", most)
    running = await _by_type(connection, {"held": True}, "held", most)
    parked = {
        kind: await _count(connection, _waits("parked", "parked", kind), "parked", most)
        for kind in await _types(connection, "parked", "parked")
    }
    return [
        QueueDepth(
            type=kind,
            waiting=waiting.get(kind, 0),
            delayed=delayed.get(kind, 0),
            running=running.get(kind, 0),
            parked=parked.get(kind, 0),
            oldest=oldest.get(kind),
        )
        for kind in sorted({*waiting, *delayed, *running, *parked})
    ]


async def search(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    """List jobs by the index that leads to them."""
    if wanted.limit <= 0:
        return JobsSeen(jobs=[])
    if wanted.is_keyed:
        return await _by_key(connection, wanted)
    if wanted.is_waiting:
        return await _in_queue(connection, wanted)
    if wanted.is_delayed_line:
        return await _by_alarm(connection, wanted)
    if wanted.status is Status.WAITING and not wanted.is_of_few:
        return await _parked(connection, wanted)
    return await _newest(connection, wanted)


async def runs(connection: MongoConnection, wanted: RunSearch) -> RunsSeen:
    """List runs by one step of their index for each, and one stretch of it."""
    found: list[RunSummary] = []
    last, looked_at = wanted.after, 0
    while True:
        below: Document = {"$gte": ""} if last is None else {"$gte": "", "$lt": last}
        query = connection.jobs.find({"run": below}, {"_id": False, "run": True})
        following = await connection.all_of(query.sort([("run", -1)]).limit(1).hint("run"))
        if not following:
            return RunsSeen(runs=found)
        if len(found) == wanted.limit or looked_at >= wanted.most:
            return RunsSeen(runs=found, next=last)
        last = following[0]["run"]
        query = connection.jobs.find({"run": last}, _OF_RUN).sort([("run", 1), ("seq", 1)])
        jobs = await connection.all_of(query.limit(COUNTED_OF_A_RUN + 1).hint("run"))
        looked_at += len(jobs)
        seen = [
            it
            for it in jobs[:COUNTED_OF_A_RUN]
            if wanted.namespace in (None, it.get("namespace", ""))
        ]
        if seen and wanted.workflow in (None, seen[0].get("workflow")):
            found.append(_summary(last, seen, is_cut=len(jobs) > COUNTED_OF_A_RUN))


def _summary(name: str, jobs: list[Document], *, is_cut: bool) -> RunSummary:
    ends = [it.get("ended") for it in jobs]
    return RunSummary(
        id=name,
        workflow=jobs[0].get("workflow"),
        created=jobs[0]["created"],
        counts=dict(Counter(Status(it["status"]) for it in jobs)),
        ended=None if None in ends else max(it for it in ends if it is not None),
        is_cut=is_cut,
    )


def stretch(wanted: JobSearch) -> Document:
    """Return which jobs to go through, backwards: by `seq`, or by an index that holds fewer."""
    if wanted.ids is not None:
        return {"_id": {"$in": list(wanted.ids)}}
    if wanted.run is not None:
        return {"run": wanted.run}
    if wanted.status in FINAL:
        return {"status": wanted.status.value, "ended": {"$gte": _EVER}}
    if wanted.status is not None:
        return {"held": True, "status": wanted.status.value}
    return {"namespace": wanted.namespace} if wanted.namespace else {}


async def _newest(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    below: Document = {}
    if wanted.after is not None:
        below = {"$lt": int(wanted.after)}
    elif wanted.created_until is not None:
        below = {"$lt": await _first_from(connection, wanted.created_until)}
    base = stretch(wanted) | ({"seq": below} if below else {})
    query = connection.jobs.find(base, {"seq": True, "created": True}).sort([("seq", -1)])
    edge = await connection.all_of(query.skip(wanted.most - 1).limit(1))
    lowest = edge[0] if edge else None
    found = base | _rest(wanted)
    if lowest is not None:
        found["seq"] = below | {"$gte": lowest["seq"]}
    read = connection.jobs.find(found, _NO_BODIES).sort([("seq", -1)]).limit(wanted.limit)
    documents = await connection.all_of(read)
    seqs = [document["seq"] for document in documents]
    jobs = await blobs.jobs_of(connection, documents)
    if len(jobs) == wanted.limit:
        return JobsSeen(jobs=jobs, next=str(seqs[-1]), until=jobs[-1].created)
    early = wanted.created_from
    if lowest is None or (early is not None and lowest["created"] < early):
        return JobsSeen(jobs=jobs)
    return JobsSeen(jobs=jobs, next=str(lowest["seq"]), until=lowest["created"])


async def _first_from(connection: MongoConnection, created: float) -> int:
    """Return a number from which on all jobs were created then or later: numbers rise with that."""
    bounds = []
    for order in (1, -1):
        query = connection.jobs.find({}, {"seq": True}).sort([("seq", order)]).limit(1)
        bounds += [it["seq"] for it in await connection.all_of(query)]
    low, high = (bounds[0], bounds[-1] + 1) if bounds else (0, 0)
    while high - low > NEAR_ENOUGH:
        middle = (low + high) // 2
        query = connection.jobs.find({"seq": {"$gte": middle}}, {"created": True})
        found = await connection.all_of(query.sort([("seq", 1)]).limit(1))
        if not found or found[0]["created"] >= created:
            high = middle
        else:
            low = middle + 1
    return high


async def _by_key(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    keys: Document = {"$eq": wanted.key}
    if wanted.key is None:
        low = wanted.key_prefix or ""
        keys = {"$gte": low, "$lt": wanted.after or f"{low}\U0010ffff"}
    query = connection.jobs.find({"unique_key": keys} | _rest(wanted), _NO_BODIES)
    query = query.sort([("unique_key", -1)]).limit(wanted.limit)
    jobs = await blobs.jobs_of(connection, await connection.all_of(query))
    is_full = len(jobs) == wanted.limit
    return JobsSeen(jobs=jobs, next=jobs[-1].unique_key if is_full else None)


async def _in_queue(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    """Look at the front of each type's queue, and take the first of all."""
    text = (wanted.after or f"{LOWEST} 0").split(" ")
    after = int(text[0]), int(text[1])
    line: list[tuple[int, int]] = []
    is_cut = False
    for index, field in _QUEUES:
        kinds = [wanted.type] if wanted.type else await _types(connection, index, field)
        share = max(wanted.limit + 1, wanted.most // max(len(kinds), 1))
        for kind in kinds:
            there = _waits(index, field, kind, least=after[0] if index == "ready" else LOWEST)
            query = connection.jobs.find(there, {"_id": False, field: True, "seq": True})
            found = await connection.all_of(query.sort(_order(index)).limit(share).hint(index))
            is_cut = is_cut or len(found) == share
            line += [it for it in ((it[field], it["seq"]) for it in found) if it > after]
    return await _of_line(connection, wanted, sorted(line), is_cut=is_cut)


async def _parked(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    """Look at the newest of each type that wait for other jobs, and take the newest of all."""
    below = {"$lt": int(wanted.after.partition(" ")[2])} if wanted.after else {"$gte": LOWEST}
    kinds = [wanted.type] if wanted.type else await _types(connection, "parked", "parked")
    share = max(wanted.limit + 1, wanted.most // max(len(kinds), 1))
    line: list[tuple[int, int]] = []
    is_cut = False
    for kind in kinds:
        there = {"parked": True, "type": kind, "seq": below}
        query = connection.jobs.find(there, {"_id": False, "seq": True}).sort([("seq", -1)])
        found = await connection.all_of(query.limit(share).hint("parked"))
        is_cut = is_cut or len(found) == share
        line += [(-it["seq"], it["seq"]) for it in found]
    return await _of_line(connection, wanted, sorted(line), is_cut=is_cut)


async def _by_alarm(connection: MongoConnection, wanted: JobSearch) -> JobsSeen:
    text = (wanted.after or "-1 0").split(" ")
    after = float(text[0]), int(text[1])
    due = {"alarm": {"$gte": after[0]}, "status": "q"}
    query = connection.jobs.find(due, {"alarm": True, "seq": True}).sort([("alarm", 1)])
    found = await connection.all_of(query.limit(wanted.most))
    line = sorted(it for it in ((it["alarm"], it["seq"]) for it in found) if it > after)
    return await _of_line(connection, wanted, line, is_cut=len(found) == wanted.most)


async def _of_line(
    connection: MongoConnection,
    wanted: JobSearch,
    line: list[tuple[Any, int]],
    *,
    is_cut: bool,
) -> JobsSeen:
    """Read the jobs of a line in its order, as far as they are looked for."""
    jobs: list[Job] = []
    for start in range(0, min(len(line), wanted.most), 200):
        part = line[start : start + 200]
        listed = {"seq": {"$in": [seq for _, seq in part]}} | _rest(wanted)
        documents = await connection.all_of(connection.jobs.find(listed, _NO_BODIES))
        seqs = {document["_id"]: document["seq"] for document in documents}
        by_seq = {seqs[job.id]: job for job in await blobs.jobs_of(connection, documents)}
        for key, seq in part:
            if (job := by_seq.get(seq)) is not None:
                jobs.append(job)
                if len(jobs) == wanted.limit:
                    return JobsSeen(jobs=jobs, next=f"{key} {seq}", until=job.created)
    if not is_cut or not line:
        return JobsSeen(jobs=jobs)
    key, seq = line[min(len(line), wanted.most) - 1]
    return JobsSeen(jobs=jobs, next=f"{key} {seq}", until=seq / 1e9)


def _rest(wanted: JobSearch) -> Document:
    """The conditions that are compared document by document."""
    rest: Document = {}
    if wanted.type is not None:
        rest["type"] = wanted.type
    if wanted.worker_id is not None:
        rest["execution.worker_id"] = wanted.worker_id
    if wanted.namespace is not None:
        rest["namespace"] = wanted.namespace or None  # null finds what is not there
    if wanted.workflow is not None:
        rest["workflow"] = wanted.workflow
    if wanted.run is not None:
        rest["run"] = wanted.run
    if wanted.status is not None and wanted.is_of_few:
        rest["status"] = wanted.status.value
        if wanted.status is Status.QUEUED:
            rest["alarm"] = {"$exists": wanted.is_delayed}
    created = {"$gte": wanted.created_from, "$lt": wanted.created_until}
    if bounds := {name: at for name, at in created.items() if at is not None}:
        rest["created"] = bounds
    if wanted.text is not None:
        said = {"$concat": ["$error.kind", ": ", "$error.message"]}
        matched = {"input": said, "regex": re.escape(wanted.text), "options": "i"}
        rest["$expr"] = {"$regexMatch": matched}
    return rest


def _waits(index: str, field: str, kind: str, *, least: int = LOWEST) -> Document:
    if index == "parked":
        return {"parked": True, "type": kind}
    lane = {"lane": {"$gte": ""}} if index == "laned" else {}
    return {"type": kind, **lane, field: {"$gte": least}}


def _order(index: str) -> list[tuple[str, int]]:
    if index == "parked":
        return [("parked", 1), ("type", 1), ("seq", 1)]
    lane = [("lane", 1)] if index == "laned" else []
    return [("type", 1), *lane, (index, 1), ("seq", 1)]


async def _types(connection: MongoConnection, index: str, field: str) -> list[str]:
    """All types in an index that begins with the type, by one step of it for each."""
    found: list[str] = []
    last = ""
    while len(found) < MOST_TYPES:
        there = _waits(index, field, "") | {"type": {"$gt": last}}
        query = connection.jobs.find(there, {"_id": False, "type": True}).sort(_order(index))
        first = await connection.all_of(query.limit(1).hint(index))
        if not first:
            break
        last = first[0]["type"]
        found.append(last)
    return found


async def _count(connection: MongoConnection, there: Document, index: str, most: int) -> int:
    return await connection.patiently(
        lambda: connection.jobs.count_documents(there, limit=most, hint=index)
    )


async def _by_type(
    connection: MongoConnection, there: Document, index: str, most: int
) -> dict[str, int]:
    stages: list[Document] = [
        {"$match": there},
        {"$limit": most},
        {"$group": {"_id": "$type", "count": {"$sum": 1}}},
    ]

    async def counted() -> list[Document]:
        return await (await connection.jobs.aggregate(stages, hint=index)).to_list()

    return {it["_id"]: it["count"] for it in await connection.patiently(counted)}
