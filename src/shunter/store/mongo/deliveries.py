"""The deliveries of a batch: what became of ended jobs' callbacks and dependents.

Nothing else of such a job changes, so only these travel, with the revision, the stamp and the
alarm that follow from it. As elsewhere, the stamp tells a write whose answer was lost.
Jobs of which only the dependents were told, and that are at the same revision, change alike: no
document travels for them, and the server looks none up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shunter.model.job import FINAL, Job
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, delivering
from shunter.store.mongo.swaps import MOST_JOBS, swap

HAS_ENDED: Document = {"status": {"$in": sorted(FINAL)}}
WITHOUT_ALARM: Document = {
    "$unsetField": {
        "field": "dependents",
        "input": {"$unsetField": {"field": "alarm", "input": "$$ROOT"}},
    }
}


_Wave = tuple[str, dict[str, Job]]
"""Jobs of one statement, no two of them steps of the same job, and the stamp that it leaves."""


class Deliveries:
    """Writes callbacks. `answers` has what became of each, once it is performed."""

    def __init__(self, jobs: Sequence[Job], *, stamp: str) -> None:
        self.answers: list[bool] = []
        self._waves: list[_Wave] = []
        kind: int | None = None
        for job in jobs:
            last = self._waves[-1][1] if self._waves else None
            told_at = job.revision if _is_told(job) else None
            if last is None or job.id in last or len(last) >= MOST_JOBS or told_at != kind:
                self._waves.append((f"{stamp}{len(self._waves)}", {}))
            self._waves[-1][1][job.id] = job
            kind = told_at

    @property
    def is_done(self) -> bool:
        return not self._waves

    async def perform(self, connection: MongoConnection) -> None:
        while self._waves:
            stamp, jobs = self._waves[0]
            write = _tell if all(map(_is_told, jobs.values())) else _deliver
            written = await connection.patiently(partial(write, connection, jobs, stamp))
            self.answers += [job_id in written for job_id in jobs]
            del self._waves[0]


def _is_told(job: Job) -> bool:
    """True if all that is left to write of a job is that its dependents know."""
    return job.callback is None and not job.dependents


async def _deliver(connection: MongoConnection, jobs: dict[str, Job], stamp: str) -> set[str]:
    documents = {name: delivering(job, stamp=stamp) for name, job in jobs.items()}
    return await swap(
        connection, documents, stamp=stamp, where=HAS_ENDED, base=WITHOUT_ALARM, kept={}
    )


async def _tell(connection: MongoConnection, jobs: dict[str, Job], stamp: str) -> set[str]:
    """Compare and swap jobs that are at one revision; return those that stand as written here."""
    ids, revision = list(jobs), next(iter(jobs.values())).revision
    result = await connection.jobs.update_many(
        {"_id": {"$in": ids}, "revision": revision - 1, **HAS_ENDED},
        {
            "$set": {"revision": revision, "stamp": stamp},
            "$unset": {"alarm": True, "dependents": True},
        },
    )
    if result.modified_count == len(ids):
        return set(ids)
    mine = {"_id": {"$in": ids}, "stamp": stamp}
    return {found["_id"] async for found in connection.jobs.find(mine, {"_id": True})}
