"""Records as documents, and back.

A document has the record's own names, so that people can read it. Beside them stand
`seq` (the order of insertion), `stamp` (the write that made it so), and, where they mean
something, the fields that indexes are made of: `ready` (or `laned`, in a lane), `alarm`,
`deadline`, `parked`, `held`, `place`, `limit_place`, `total_place`, `ended`. The last two places
have the numbers of `execution` in them, which are not written twice. A job that waits for
others names them in `after`, and `wakes` is its rank if it can be queued as it is
(`told_dependents.py`).
Times are floats, seconds since 1970, as everywhere in Shunter: BSON's dates know milliseconds
only, and a time that comes back changed would make two equal records differ.
Must not know collections or connections.
"""

from __future__ import annotations

from typing import Any

import bson
import msgspec
from bson.raw_bson import RawBSONDocument
from msgspec.structs import force_setattr, replace

from shunter.model.job import FINAL, Job, Status
from shunter.model.job_limits import place_number
from shunter.model.queue_order import alarm, deadline, limit_place, place, rank, total_place
from shunter.model.worker import Worker
from shunter.model.workflow import wakes_as_it_is

Document = dict[str, Any]

OPEN = ["w", "q", "d", "i"]
"""The letters of all that is not final."""

LOWEST = -(2**63)
"""No rank is lower. `{"$gte": LOWEST}` says "there", in words that let the index answer."""

_ALWAYS: Document = {"status": "q", "revision": 0, "attempt": 0, "priority": 0}
"""Defaults that are written all the same, because queries and people look at them."""


class Apart(msgspec.Struct, frozen=True):
    """Stands in a document for bytes that are kept in the blobs."""

    blob: str
    parts: int
    size: int

    @property
    def part_ids(self) -> list[str]:
        return [f"{self.blob}/{part}" for part in range(self.parts)]


_NUMBERED = ("limit_place", "total_place")
"""Places whose names have the numbers in them that a run has in its record."""

Body = bytes | Apart | None


def inserted(
    job: Job, *, seq: int, stamp: str, payload: Body, result: Body, after: Document | None = None
) -> RawBSONDocument:
    """The document of a new job."""
    document = _document(job, stamp, result)
    document["seq"] = seq
    if after is not None:
        document["after"] = after
        if wakes_as_it_is(job):
            document["wakes"] = rank(job)
    _put(document, "payload", payload)
    return _encoded(document)


def replacing(job: Job, *, stamp: str, result: Body) -> RawBSONDocument:
    """What is to stand in a job's place; its `seq`, its payload and its parents stay."""
    return _encoded(_document(job, stamp, result))


def delivering(job: Job, *, stamp: str) -> RawBSONDocument:
    """What changes in the document of an ended job when something became of its callback."""
    document: Document = {"_id": job.id, "revision": job.revision, "stamp": stamp}
    if job.dependents:
        document["dependents"] = True
    if job.callback is not None:
        document["callback"] = msgspec.to_builtins(job.callback)
    if (at := alarm(job)) is not None:
        document["alarm"] = at
    return _encoded(document)


def registered(worker: Worker) -> Document:
    """The document of a worker, without its jobs: those are read from the jobs themselves."""
    fields: Document = msgspec.to_builtins(replace(worker, jobs=(), places=()))
    return {"_id": fields.pop("id"), **fields}


def apart_in(document: Document) -> dict[str, Apart]:
    """Which fields of a job are kept apart, and where."""
    return {
        field: msgspec.convert(document[field], Apart)
        for field in ("payload", "result")
        if type(document.get(field)) is dict and document[field]
    }


def job_of(document: Document) -> tuple[Job, dict[str, Apart]]:
    """The job that a document holds, and which of its fields are apart."""
    apart = apart_in(document)
    for field in apart:
        del document[field]
    document["id"] = document.pop("_id")
    for field in _NUMBERED:
        if (text := document.get(field)) is not None:
            document["execution"][field] = place_number(text)
    return msgspec.convert(document, Job), apart


def worker_of(document: Document) -> Worker:
    """The worker that a document holds, without its jobs."""
    document["id"] = document.pop("_id")
    return msgspec.convert(document, Worker)


def with_jobs(worker: Worker, holding: list[Document]) -> Worker:
    """A worker with its jobs in progress, of which `holding` has ids and places."""
    places = (found["execution"].get("place") for found in holding)
    return replace(
        worker,
        jobs=tuple(found["_id"] for found in holding),
        places=tuple(taken for taken in places if taken is not None),
    )


def with_body(job: Job, field: str, body: bytes) -> None:
    """Give a job that was just read what was read apart from it."""
    force_setattr(job, field, body)


def _document(job: Job, stamp: str, result: Body) -> Document:
    fields: Document = msgspec.to_builtins(
        replace(job, payload=None, result=None, parents=b""), builtin_types=(bytes,)
    )
    document = {"_id": fields.pop("id"), **_ALWAYS, **fields, "stamp": stamp}
    at = alarm(job)
    if at is not None:
        document["alarm"] = at
    if job.status is Status.QUEUED:
        if at is None:
            document["ready" if job.lane is None else "laned"] = rank(job)
        if (until := deadline(job)) is not None:
            document["deadline"] = until
    elif job.status is Status.WAITING:
        document["parked"] = True
    elif job.status in FINAL:
        document["ended"] = _ended(job)
    else:
        document["held"] = True
        if (taken := place(job)) is not None:
            document["place"] = taken
        if job.execution.limit_place is not None or job.execution.total_place is not None:
            _put_limited_places(document, job)
    _put(document, "result", result)
    return document


def _put_limited_places(document: Document, job: Job) -> None:
    for field, taken in zip(_NUMBERED, (limit_place(job), total_place(job)), strict=True):
        if taken is not None:
            document[field] = taken
            del document["execution"][field]


def _put(document: Document, field: str, body: Body) -> None:
    if body is not None:
        document[field] = body if type(body) is bytes else msgspec.to_builtins(body)


def _encoded(document: Document) -> RawBSONDocument:
    """Encode at once, so that what can't be written fails before anything is."""
    return RawBSONDocument(bson.encode(document))


def _ended(job: Job) -> float:
    """When a final job ended; one that was never closed properly counts from its last change."""
    return job.updated if job.execution.ended is None else job.execution.ended
