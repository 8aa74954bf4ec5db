"""The deliveries of a batch: what became of ended jobs' callbacks and dependents.

Nothing else of such a job changes, so only these travel, with the revision, the stamp and the
alarm that follow from it. As elsewhere, the stamp tells a write whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bson.raw_bson import RawBSONDocument

from shunter.model.job import FINAL, Job
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, delivering
from shunter.store.mongo.swapping import MOST_JOBS, swap

HAS_ENDED: Document = {"status": {"$in": sorted(FINAL)}}
WITHOUT_ALARM: Document = {
    "$unsetField": {
        "field": "dependents",
        "input": {"$unsetField": {"field": "alarm", "input": "$$ROOT"}},
    }
}


class Deliveries:
    """Writes callbacks. `answers` has what became of each, once it is performed."""

    def __init__(self, jobs: Sequence[Job], *, stamp: str) -> None:
        self.answers: list[bool] = []
        self._waves: list[tuple[str, dict[str, RawBSONDocument]]] = []
        for job in jobs:
            last = self._waves[-1][1] if self._waves else None
            if last is None or job.id in last or len(last) >= MOST_JOBS:
                self._waves.append((f"{stamp}{len(self._waves)}", {}))
            own, documents = self._waves[-1]
            documents[job.id] = delivering(job, stamp=own)

    @property
    def is_done(self) -> bool:
        return not self._waves

    async def perform(self, connection: MongoConnection) -> None:
        while self._waves:
            stamp, documents = self._waves[0]
            written = await connection.patiently(
                partial(
                    swap,
                    connection,
                    documents,
                    stamp=stamp,
                    where=HAS_ENDED,
                    base=WITHOUT_ALARM,
                    kept={},
                )
            )
            self.answers += [job_id in written for job_id in documents]
            del self._waves[0]
