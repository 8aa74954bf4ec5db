"""What a new job changes in the earlier one whose key it has: one compare-and-swap.

Where another write came first, nothing is changed, and the new job is offered again. A change
whose answer was lost is found done when it is decided again, or is harmless when repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import bson
from bson.raw_bson import RawBSONDocument
from msgspec.structs import replace

from shunter.model.job import Job
from shunter.model.uniqueness import EarlierJobChange
from shunter.store.mongo.blobs import Cutter, loosen
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document, inserted, replacing
from shunter.store.mongo.swaps import KEPT, swap

NOT_BEGUN: Document = {"status": {"$in": ["q", "d"]}}
WITHOUT_KEY: Document = {"$unsetField": {"field": "unique_key", "input": "$$ROOT"}}
SEQ: Document = {"seq": "$seq"}


class KeyMeeting:
    """Performs one change. `old_parts` are those that the earlier job's bytes are kept in."""

    def __init__(self, change: EarlierJobChange, *, stamp: str, old_parts: Sequence[str]) -> None:
        self._change, self._stamp, self._old_parts = change, stamp, old_parts

    async def perform(self, connection: MongoConnection, earlier: Job) -> Job | None:
        """Return the job that answers the new one, or None where that is to be offered again."""
        change = self._change
        if not change.is_answer:
            await self._give_up_key(connection)
            return None
        if change.has_payload:
            is_written = await self._replace(connection)
        else:
            document = replacing(change.job, stamp=self._stamp, result=None)
            is_written = await self._swap(connection, document, where=NOT_BEGUN, kept=KEPT)
        if not is_written:
            return None
        return change.job if change.has_payload else replace(change.job, payload=earlier.payload)

    async def _give_up_key(self, connection: MongoConnection) -> None:
        job = self._change.job
        fields = {"_id": job.id, "revision": job.revision, "stamp": self._stamp}
        document = RawBSONDocument(bson.encode(fields))
        await self._swap(connection, document, where={}, kept={}, base=WITHOUT_KEY)

    async def _replace(self, connection: MongoConnection) -> bool:
        """Write the new payload beside the old one, which is loose from now on, and swap."""
        job, cutter = self._change.job, Cutter()
        payload = cutter.body(job.id, job.payload, f"{self._stamp}.payload")
        document = inserted(job, seq=0, stamp=self._stamp, payload=payload, result=None)
        await cutter.write(connection)
        await connection.patiently(partial(loosen, connection, self._old_parts))
        is_written = await self._swap(connection, document, where=NOT_BEGUN, kept=SEQ)
        if not is_written:
            await connection.patiently(partial(cutter.discard, connection, {job.id}))
        return is_written

    async def _swap(
        self,
        connection: MongoConnection,
        document: RawBSONDocument,
        *,
        where: Document,
        kept: Document,
        base: Document | None = None,
    ) -> bool:
        job_id = self._change.job.id
        written = await connection.patiently(
            partial(
                swap,
                connection,
                {job_id: document},
                stamp=self._stamp,
                where=where,
                kept=kept,
                base=base,
            )
        )
        return job_id in written
