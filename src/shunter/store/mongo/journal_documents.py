"""What jobs keep beside their records. Job, kind and key are the `_id`, which is in their order.

An entry and its job are two documents, so a write can't look at the job. It is looked at before,
and again after the entry is on the majority's disks: an entry that is told as written was there
while its run was the current one, and whoever starts the next one, later, finds it. One that came
too late is taken away again; should that fail it does no harm, since it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from shunter.model.job import FINAL, Status
from shunter.model.journal import (
    COPIED,
    SENT,
    EntryKind,
    JournalEntry,
    JournalPage,
    in_pages,
)
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document
from shunter.store.mongo.faults import duplicates

_AFTER_SPACE = "!"
_READ_AT_ONCE = 256
_PURGED_AT_ONCE = 100

Standing = dict[str, tuple[Status, int]]
"""Status and attempt of jobs by their ids."""


class JournalWrites:
    """Writes entries. `answers` has what became of each, once it is performed."""

    def __init__(self, entries: Sequence[JournalEntry], *, stamp: str) -> None:
        self._entries, self._stamp = entries, stamp
        self.answers: list[bool] = []
        self.is_done = not entries

    async def perform(self, connection: MongoConnection) -> None:
        if not self.is_done:
            self.answers = await connection.patiently(partial(self._enter, connection))
            self.is_done = True

    async def _enter(self, connection: MongoConnection) -> list[bool]:
        ids = list({entry.job_id for entry in self._entries})
        standing = await _standing(connection, ids)
        fit = [at for at, entry in enumerate(self._entries) if _is_fit(entry, standing)]
        if not fit:
            return [False] * len(self._entries)
        written = set(fit)
        writes = [_write(self._entries[at], self._stamp) for at in fit]
        try:
            await connection.journal.bulk_write(writes, ordered=False)
        except BulkWriteError as error:  # a later attempt has it
            written.difference_update(fit[at] for at in duplicates(error))
        standing = await _standing(connection, ids)
        if late := {at for at in written if not _is_fit(self._entries[at], standing)}:
            names = [_id(self._entries[at]) for at in late]
            mine = {"_id": {"$in": names}, "stamp": self._stamp}
            await connection.journal.delete_many(mine)
        return [at in written and at not in late for at in range(len(self._entries))]


async def page(
    connection: MongoConnection, job_id: str, kind: EntryKind, after: str, most_bytes: int
) -> JournalPage:
    """Read entries of one kind by rising keys."""
    wanted = {"$gt": f"{job_id} {kind} {after}", "$lt": f"{job_id} {kind}{_AFTER_SPACE}"}
    query = connection.journal.find({"_id": wanted}).sort("_id", 1)

    async def read() -> JournalPage:
        found: list[JournalEntry] = []
        size = 0
        async for document in query.clone().batch_size(_READ_AT_ONCE):
            found.append(_entry(document))
            size += len(found[-1].body) + 64
            if len(found) > 1 and size > most_bytes + 64:
                break
        return in_pages(found, limit=most_bytes)

    return await connection.patiently(read)


async def purge(connection: MongoConnection, job_ids: Sequence[str]) -> None:
    """Delete all that these jobs have kept."""
    if await connection.journal.find_one({}, {"_id": True}) is None:
        return
    for start in range(0, len(job_ids), _PURGED_AT_ONCE):
        some = job_ids[start : start + _PURGED_AT_ONCE]
        spans = [{"_id": {"$gt": f"{it} ", "$lt": f"{it}{_AFTER_SPACE}"}} for it in some]
        await connection.journal.delete_many({"$or": spans})


async def _standing(connection: MongoConnection, ids: list[str]) -> Standing:
    found = connection.jobs.find({"_id": {"$in": ids}}, {"status": True, "attempt": True})
    return {it["_id"]: (Status(it["status"]), it.get("attempt", 0)) async for it in found}


def _is_fit(entry: JournalEntry, standing: Standing) -> bool:
    status, attempt = standing.get(entry.job_id, (None, 0))
    if entry.attempt == COPIED:
        return status is None
    if entry.attempt == SENT:
        return status is not None and status not in FINAL
    return status is Status.IN_PROGRESS and attempt == entry.attempt


def _write(entry: JournalEntry, stamp: str) -> UpdateOne:
    content: Document = {
        "job": entry.job_id,
        "kind": entry.kind.value,
        "key": entry.key,
        "name": entry.name,
        "attempt": entry.attempt,
        "at": entry.at,
        "seconds": entry.seconds,
        "digest": entry.digest,
        "body": entry.body,
        "stamp": stamp,
    }
    if entry.attempt in (SENT, COPIED):
        return UpdateOne({"_id": _id(entry)}, {"$setOnInsert": content}, upsert=True)
    where: dict[str, Any] = {"_id": _id(entry), "attempt": {"$lte": entry.attempt}}
    return UpdateOne(where, {"$set": content}, upsert=True)


def _id(entry: JournalEntry) -> str:
    return f"{entry.job_id} {entry.kind} {entry.key}"


def _entry(document: Document) -> JournalEntry:
    return JournalEntry(
        job_id=document["job"],
        kind=EntryKind(document["kind"]),
        key=document["key"],
        name=document["name"],
        attempt=document["attempt"],
        at=document["at"],
        seconds=document["seconds"],
        digest=document["digest"],
        body=document["body"],
    )
