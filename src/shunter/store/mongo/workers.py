"""Worker records of a batch: those put, then those renewed, in one command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import ReplaceOne, UpdateMany

from shunter.model.worker import Worker
from shunter.store.mongo.connection import Connection
from shunter.store.mongo.documents import Document, registered


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

    async def perform(self, connection: Connection) -> None:
        if self._writes:
            await connection.patiently(lambda: connection.workers.bulk_write(self._writes))
            self._writes = []
