"""One batch on its way into the database.

It is no transaction: each write is a compare-and-swap of its own, harmless when repeated, and
means nothing to the others. A dispatcher that dies in between leaves some of them done, which
is what it would have left by dying between two batches.
A part that is done is remembered; a part whose answer was lost is done again under the same
stamp, by which it knows its own writes. So an errand that failed may be performed again, and goes
on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from shunter.errors import StoreError
from shunter.store.mongo.claiming import Claiming
from shunter.store.mongo.connection import Connection
from shunter.store.mongo.inserting import Insertions
from shunter.store.mongo.replacing import Replacements
from shunter.store.mongo.workers import WorkerWrites
from shunter.store.port import Batch, Committed


class Part(Protocol):
    @property
    def is_done(self) -> bool:
        """Tell whether nothing is left to do."""

    async def perform(self, connection: Connection) -> None:
        """Do what is not done yet, and keep the answers."""


class Errand:
    """All that one batch wants written. `stamp` is this errand's alone."""

    def __init__(self, batch: Batch, *, stamp: str, seqs: Iterator[int]) -> None:
        self.batch = batch
        self._workers = WorkerWrites(batch.workers, batch.renewed, now=batch.now)
        self._replacements = Replacements(batch.replacements, stamp=f"{stamp}.r")
        self._insertions = Insertions(batch.inserts, stamp=f"{stamp}.i", seqs=seqs)
        self._claims = [
            Claiming(claim, stamp=f"{stamp}.c{at}") for at, claim in enumerate(batch.claims)
        ]

    async def perform(self, connection: Connection) -> Committed:
        """Write all that is not written yet.

        What does not depend on each other is under way at the same time, and shares the
        journal's flush.
        """
        replaced = {job.id for job in self.batch.replacements}
        if replaced.isdisjoint(job.id for job in self.batch.inserts):
            await _together(connection, self._workers, self._replacements, self._insertions)
        else:
            await _together(connection, self._workers, self._replacements)
            await self._insertions.perform(connection)
        types = [kind for claim in self.batch.claims for kind in set(claim.types)]
        if len(types) == len(set(types)):
            await _together(connection, *self._claims)
        else:
            for claim in self._claims:
                await claim.perform(connection)
        return Committed(
            inserted=self._insertions.answers,
            replaced=self._replacements.answers,
            claimed=[claim.jobs for claim in self._claims],
        )


async def _together(connection: Connection, *parts: Part) -> None:
    """Perform parts at the same time; each is brought to its end, whatever becomes of others."""
    rest = [part for part in parts if not part.is_done]
    if len(rest) == 1:
        await rest[0].perform(connection)
        return
    outcomes: Sequence[StoreError | None] = await asyncio.gather(
        *(_tried(connection, part) for part in rest)
    )
    for error in outcomes:
        if error is not None:
            raise error


async def _tried(connection: Connection, part: Part) -> StoreError | None:
    try:
        await part.perform(connection)
    except StoreError as error:
        return error
    return None
