"""All workers, read again every second by every dispatcher.

A record that is compared and swapped has the stamp of that write. So the stamps are read first,
and only records whose stamp is new are read in full: of a thousand workers few change within a
second. Records without one (those of ZeroMQ workers) are read each time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from shunter.model.worker import Worker
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, with_jobs, worker_of
from shunter.store.mongo.reads import held

_HOLDING = {"execution.worker_id": True, "execution.place": True}


class WorkerListing:
    """Reads workers, and remembers what they were by their stamps."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, Worker]] = {}

    async def read(self, connection: MongoConnection, ids: Sequence[str] | None) -> list[Worker]:
        """Return these workers, or all of them, each with its jobs in progress."""
        query = connection.jobs.find(held(ids), _HOLDING).sort([("seq", 1)])
        found, holding = await asyncio.gather(
            self._all(connection) if ids is None else self._some(connection, ids),
            connection.all_of(query),
        )
        jobs: defaultdict[str, list[Document]] = defaultdict(list)
        for job in holding:
            jobs[job["execution"]["worker_id"]].append(job)
        order = sorted(found) if ids is None else [each for each in ids if each in found]
        return [
            with_jobs(found[each], jobs[each]) if each in jobs else found[each] for each in order
        ]

    async def _all(self, connection: MongoConnection) -> dict[str, Worker]:
        query = connection.workers.find({}, {"stamp": True}, batch_size=1000)
        stamps = {each["_id"]: each.get("stamp") for each in await connection.all_of(query)}
        found = {
            each: known[1]
            for each, stamp in stamps.items()
            if stamp is not None and (known := self._known.get(each)) and known[0] == stamp
        }
        unknown = [each for each in stamps if each not in found]
        if unknown:
            found |= await self._some(connection, unknown)
        self._known = {each: (stamps[each], worker) for each, worker in found.items()}
        return found

    async def _some(self, connection: MongoConnection, ids: Sequence[str]) -> dict[str, Worker]:
        query = connection.workers.find({"_id": {"$in": list(ids)}}, batch_size=1000)
        return {worker.id: worker for worker in map(worker_of, await connection.all_of(query))}
