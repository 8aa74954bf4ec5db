"""Bytes that are too big to stand in a job's document, cut into parts.

A document is rewritten as a whole at each transition, and may not exceed 16 MiB. So long
payloads and results stand apart, each under a name that no other write uses: who loses a
compare-and-swap has overwritten nobody's bytes.
Parts are written before the job that refers to them, and stay `loose` (since when, it says)
until a sweep an hour later finds that job; so a crash in between leaves no rubbish for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import TypeVar

from pymongo import ReplaceOne

from shunter.model.job import Job
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Apart, Body, Document, apart_in, job_of, with_body

T = TypeVar("T")

MOST_INLINE_BYTES = 64 << 10
"""Where measured, writing apart is the cheaper way from about here on."""

PART_BYTES = 8 << 20
BYTES_AT_ONCE = 16 << 20
"""What one operation moves, so that none of them takes long."""

LOOSE_SECONDS = 3600.0
MOST_SWEPT = 100

REFERENCES = {
    f"{body}.{field}": True for body in ("payload", "result") for field in Apart.__struct_fields__
}
"""A projection: which blobs a job refers to, and nothing of what it holds itself."""


class Cutter:
    """Cuts long bytes; what it cut off is to be written before the jobs are."""

    def __init__(self) -> None:
        self._parts: list[Document] = []

    def body(self, job_id: str, body: bytes | None, name: str) -> Body:
        """What is to stand in the job's document for `body`."""
        if body is None or len(body) <= MOST_INLINE_BYTES:
            return body
        apart = Apart(name, -(-len(body) // PART_BYTES), len(body))
        view = memoryview(body)
        for number, part_id in enumerate(apart.part_ids):
            data = bytes(view[number * PART_BYTES : (number + 1) * PART_BYTES])
            self._parts.append({"_id": part_id, "job": job_id, "data": data})
        return apart

    async def write(self, connection: MongoConnection) -> None:
        """Write the parts, or write them again."""
        since = {"loose": time.time()}
        for parts in _groups(self._parts, [len(part["data"]) for part in self._parts]):
            writes = [ReplaceOne({"_id": it["_id"]}, it | since, upsert=True) for it in parts]
            await connection.patiently(partial(connection.blobs.bulk_write, writes, ordered=False))

    async def discard(self, connection: MongoConnection, job_ids: Set[str]) -> None:
        """Delete the parts of jobs that were refused, unless they are in use all the same.

        They are where a try whose answer was lost had written the job, and somebody has taken
        it on since.
        """
        parts = [part["_id"] for part in self._parts if part["job"] in job_ids]
        if parts:
            used = await _used(connection, list(job_ids))
            await remove(connection, [part_id for part_id in parts if part_id not in used])


Found = tuple[Job, dict[str, Apart]]
"""A job as its document has it, and which of its fields are kept apart."""


async def jobs_of(connection: MongoConnection, documents: Sequence[Document]) -> list[Job]:
    """The jobs that documents hold, with all their bytes."""
    return await filled(connection, [job_of(document) for document in documents])


async def filled(connection: MongoConnection, found: Sequence[Found]) -> list[Job]:
    """Give jobs the bytes that are kept apart.

    A job whose bytes are gone is left out: it was purged since its document was read.
    """
    jobs = [job for job, _ in found]
    lacking = [(job, field, where) for job, apart in found for field, where in apart.items()]
    if not lacking:
        return jobs
    wanted = [(part_id, where) for _, _, where in lacking for part_id in where.part_ids]
    sizes = [where.size // where.parts for _, where in wanted]
    data: dict[str, bytes] = {}
    for part_ids in _groups([part_id for part_id, _ in wanted], sizes):
        query = connection.blobs.find({"_id": {"$in": part_ids}}, {"data": True})
        for part in await connection.all_of(query):
            data[part["_id"]] = part["data"]
    gone = set()
    for job, field, where in lacking:
        if data.keys() >= set(where.part_ids):
            with_body(job, field, b"".join(data[part_id] for part_id in where.part_ids))
        else:
            gone.add(job.id)
    return [job for job in jobs if job.id not in gone]


def part_ids_of(document: Document) -> list[str]:
    """The parts that a document refers to; it may have been read with REFERENCES only."""
    return [part_id for where in apart_in(document).values() for part_id in where.part_ids]


async def loosen(connection: MongoConnection, part_ids: Sequence[str]) -> None:
    """Mark the parts of jobs that are about to be deleted, for whoever must finish that."""
    if part_ids:
        await connection.blobs.update_many({"_id": {"$in": part_ids}}, {"$set": {"loose": 0.0}})


async def remove(connection: MongoConnection, part_ids: Sequence[str]) -> None:
    if part_ids:
        await connection.blobs.delete_many({"_id": {"$in": part_ids}})


async def sweep(connection: MongoConnection) -> None:
    """Look at some parts that were loose for long: keep those in use, delete the others."""
    blobs = connection.blobs
    long_loose = {"loose": {"$lt": time.time() - LOOSE_SECONDS}}
    parts = await blobs.find(long_loose, {"job": True}).limit(MOST_SWEPT).to_list()
    if not parts:
        return
    used = await _used(connection, [part["job"] for part in parts])
    kept = [part["_id"] for part in parts if part["_id"] in used]
    await blobs.update_many({"_id": {"$in": kept}, **long_loose}, {"$unset": {"loose": ""}})
    rest = [part["_id"] for part in parts if part["_id"] not in used]
    await blobs.delete_many({"_id": {"$in": rest}, **long_loose})


async def _used(connection: MongoConnection, job_ids: Sequence[str]) -> set[str]:
    """The parts that these jobs refer to."""
    jobs = connection.jobs.find({"_id": {"$in": job_ids}}, REFERENCES)
    return {part_id async for job in jobs for part_id in part_ids_of(job)}


def _groups(parts: Sequence[T], sizes: Sequence[int]) -> Iterator[list[T]]:
    """Parts in portions of about BYTES_AT_ONCE."""
    group: list[T] = []
    total = 0
    for part, size in zip(parts, sizes, strict=True):
        if group and total + size > BYTES_AT_ONCE:
            yield group
            group, total = [], 0
        group.append(part)
        total += size
    if group:
        yield group
