"""Bytes that are too big to stand in a job's document, cut into parts.

A document is rewritten as a whole at each transition, and may not exceed 16 MiB. So long
payloads and results stand apart, each under a name that no other write uses: who loses a
compare-and-swap has overwritten nobody's bytes.
Parts are written before the job that refers to them, and are `loose` (with the time) until
somebody has looked an hour later and found that job. So a crash in between leaves no rubbish.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pymongo import ReplaceOne

from shunter.model.job import Job
from shunter.store.mongo.connection import Collection, Connection
from shunter.store.mongo.documents import Apart, Body, Document, job_of, with_body

MOST_INLINE_BYTES = 64 << 10
PART_BYTES = 8 << 20

LOOSE_SECONDS = 3600.0
MOST_SWEPT = 100


class Cut:
    """Cuts the bytes of some jobs; `parts` are to be written before them."""

    def __init__(self) -> None:
        self.parts: list[Document] = []

    def body(self, job_id: str, body: bytes | None, name: str) -> Body:
        """What is to stand in the job's document for `body`."""
        if body is None or len(body) <= MOST_INLINE_BYTES:
            return body
        count = -(-len(body) // PART_BYTES)
        apart = Apart(name, count, len(body))
        view = memoryview(body)
        for part, part_id in enumerate(apart.part_ids):
            data = bytes(view[part * PART_BYTES : (part + 1) * PART_BYTES])
            self.parts.append({"_id": part_id, "job": job_id, "blob": name, "data": data})
        return apart


async def write(blobs: Collection, parts: Iterable[Document]) -> None:
    """Write parts, or write them again."""
    now = time.time()
    writes = [ReplaceOne({"_id": part["_id"]}, {**part, "loose": now}, upsert=True) for part in parts]
    if writes:
        await blobs.bulk_write(writes, ordered=False)


async def discard(blobs: Collection, parts: Iterable[Document]) -> None:
    """Delete the parts of a write that was refused."""
    ids = [part["_id"] for part in parts]
    if ids:
        await blobs.delete_many({"_id": {"$in": ids}})


async def jobs_of(blobs: Collection, documents: Sequence[Document]) -> list[Job]:
    """The jobs that documents hold, with all their bytes.

    A job whose bytes are gone is left out: it was purged since its document was read.
    """
    jobs: list[Job] = []
    lacking: list[tuple[Job, str, Apart]] = []
    for document in documents:
        job, apart = job_of(document)
        jobs.append(job)
        lacking += [(job, field, where) for field, where in apart.items()]
    if not lacking:
        return jobs
    wanted = [part_id for _, _, where in lacking for part_id in where.part_ids]
    found = blobs.find({"_id": {"$in": wanted}}, {"data": True})
    parts = {part["_id"]: part["data"] async for part in found}
    gone = set()
    for job, field, where in lacking:
        if all(part_id in parts for part_id in where.part_ids):
            with_body(job, field, b"".join(parts[part_id] for part_id in where.part_ids))
        else:
            gone.add(job.id)
    return [job for job in jobs if job.id not in gone]


async def loosen(blobs: Collection, documents: Sequence[Document]) -> list[str]:
    """Mark the blobs of jobs that are about to be deleted, and return their parts' ids."""
    ids = [
        part_id
        for document in documents
        for apart in job_refs(document)
        for part_id in apart
    ]
    if ids:
        await blobs.update_many({"_id": {"$in": ids}}, {"$set": {"loose": 0.0}})
    return ids
