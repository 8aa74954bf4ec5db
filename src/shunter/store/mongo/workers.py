"""Worker records of a batch: those put, then those renewed, in one command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import ReplaceOne, UpdateMany
from pymongo.errors import BulkWriteError

from shunter.model.worker import Worker
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, registered
from shunter.store.mongo.faults import duplicates


class WorkerWrites:
    """Blind writes: to repeat them is to write the same again."""

    def __init__(self, workers: Sequence[Worker], renewed: Iterable[str], *, now: float) -> None:
        self._writes: list[ReplaceOne[Document] | UpdateMany] = [
            ReplaceOne({"_id": worker.id}, registered(worker), upsert=True) for worker in workers
        ]
        ids = list(renewed)
        if ids:
            heard: dict[str, Any] = {"last_pinged": now, "is_dead": False}
            self._writes.append(UpdateMany({"_id": {"$in": ids}}, {"$set": heard}))

    @property
    def is_done(self) -> bool:
        return not self._writes

    async def perform(self, connection: MongoConnection) -> None:
        if self._writes:
            await connection.patiently(lambda: connection.workers.bulk_write(self._writes))
            self._writes = []


async def swap_workers(
    connection: MongoConnection, workers: Sequence[Worker], *, stamp: str
) -> list[bool]:
    """Compare and swap; the stamp tells which records stand as written here, also when repeated."""
    if not workers:
        return []
    writes = [
        ReplaceOne(
            {"_id": worker.id, "revision": _stored(worker.revision - 1)},
            {**registered(worker), "stamp": stamp},
            upsert=worker.revision == 1,
        )
        for worker in workers
    ]
    try:
        await connection.workers.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        duplicates(error)  # to be made, but there already
    mine = {"_id": {"$in": [worker.id for worker in workers]}, "stamp": stamp}
    written = {found["_id"] async for found in connection.workers.find(mine, {"_id": True})}
    return [worker.id in written for worker in workers]


async def remove_workers(connection: MongoConnection, workers: Sequence[Worker]) -> None:
    """Delete records that are still at these revisions."""
    if workers:
        listed = [{"_id": worker.id, "revision": _stored(worker.revision)} for worker in workers]
        await connection.workers.delete_many({"$or": listed})


def _stored(revision: int) -> Any:
    """A revision as a condition; 0 is not written."""
    return revision or {"$in": [0, None]}
