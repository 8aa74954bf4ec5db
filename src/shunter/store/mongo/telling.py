"""Telling dependents by the commit that ends their parents.

Only the usual case is dealt with: parents that completed, whose children hold their edges
themselves (`inline_edges.py`) and wait on, or can be started or queued with nothing else about
them to be decided. Other parents are written as due, and any dispatcher tells theirs
(`dispatch/dependents.py`).
A parent that is told is never marked as due: that would be one more write of each. Instead a note
says beforehand whose children are about to be told, one for the whole batch, and goes when they
are. Where a dispatcher dies in between, another one finds the note (`take_up`): those parents
that have ended become due. Those that have not are written once, which raises their revision: so
an end that is still on its way from a dispatcher believed dead is refused.
Children that may start are left to the claims first (`free_children.py`).
All of it is harmless when repeated, and when two do it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from time import monotonic

from msgspec.structs import replace

from shunter.model.job import Job
from shunter.model.workflow import has_completed_for_others
from shunter.store.mongo.children import SEEN, Child, Told, make_due, tell
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import OPEN
from shunter.store.mongo.free_children import FreeChildren, forget
from shunter.store.port import Batch

LEFT_TO_OTHERS_MS = 5000
"""How old a note is before another dispatcher takes it up, by the server's clock.

Its own client needs it for no longer than children are held (`free_children.HELD_SECONDS`) and
then queued.
"""


class Telling:
    """Tells the dependents of the jobs that a batch completes, as far as it may.

    First `look` and `announce`, also at the same time; then the batch's jobs are written `as_told`,
    then `tell`.
    """

    def __init__(self, batch: Batch, free: FreeChildren, *, stamp: str) -> None:
        names = [job.id for job in batch.replacements]
        is_each_once = len(names) == len(set(names))
        self._most = batch.tells if is_each_once else 0
        self._now, self._stamp, self._free = batch.now, stamp, free
        self._began = monotonic()
        self._ended = [
            job.id for job in batch.replacements if self._most and has_completed_for_others(job)
        ]
        self._children: list[Child] = []
        self._chosen: set[str] = set()
        self.told: frozenset[str] = frozenset()
        self.woken: frozenset[str] = frozenset()

    @property
    def is_needed(self) -> bool:
        return bool(self._ended)

    async def look(self, connection: MongoConnection) -> None:
        """Find out whose dependents can be told.

        A child that is added from now on raises its parent's revision: that one's end is refused.
        """
        query = connection.jobs.find(
            {"after.parents": {"$in": self._ended}}, SEEN, batch_size=self._most + 2
        )
        documents, with_rows = await asyncio.gather(
            connection.all_of(query.limit(self._most + 1)),
            connection.patiently(
                partial(connection.edges.distinct, "parent", {"parent": {"$in": self._ended}})
            ),
        )
        if len(documents) > self._most:
            return
        self._children = [Child.of(document) for document in documents]
        others = set(with_rows)
        edges = dict.fromkeys(self._ended, 0)
        for child in self._children:
            for parent in child.pending & edges.keys():
                edges[parent] += 1
                if not child.is_plain:
                    others.add(parent)
        room = self._most
        for parent, count in edges.items():
            if parent not in others and count <= room:
                self._chosen.add(parent)
                room -= count

    async def announce(self, connection: MongoConnection) -> None:
        """Leave a note, which is there before any of these has ended."""
        note = [{"$set": {"parents": {"$literal": self._ended}, "at": "$$NOW"}}]
        self._began = monotonic()
        await connection.patiently(
            partial(connection.tellings.update_one, {"_id": self._stamp}, note, upsert=True)
        )

    def as_told(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the batch's jobs as they are to be written."""
        return [replace(it, dependents=False) if it.id in self._chosen else it for it in jobs]

    async def tell(self, connection: MongoConnection, written: Collection[str]) -> None:
        """Tell the dependents of those that were written, and take the note back.

        Where children are left to claims, it stays until they are started or queued.
        """
        parents = self._chosen & set(written)
        due = self._chosen - parents  # perhaps they were written, and again by somebody else
        children = [child for child in self._children if child.pending & parents]
        free = [it for it in children if it.is_free(parents) and not it.has_lane]
        rest = [it for it in children if not it.is_free(parents) or it.has_lane]
        told = await self._told(connection, rest, parents)
        due |= told.unclear
        if due:
            await connection.patiently(partial(make_due, connection, due, self._stamp))
        self.told = frozenset(parents - due)
        self.woken = told.woken | {child.type for child in free}
        if free:
            self._free.add(self._stamp, free, since=self._began, now=self._now)
        else:
            await connection.patiently(partial(forget, connection, [self._stamp]))

    async def _told(
        self, connection: MongoConnection, children: Sequence[Child], parents: set[str]
    ) -> Told:
        return await tell(connection, children, parents, now=self._now, stamp=self._stamp)


async def take_up(connection: MongoConnection, *, stamp: str) -> None:
    """Make due what dispatchers that died were about to tell."""
    age = {"$subtract": ["$$NOW", "$at"]}
    query = connection.tellings.find({"$expr": {"$gte": [age, LEFT_TO_OTHERS_MS]}})
    for note in await query.to_list():
        parents = note["parents"]
        await connection.jobs.update_many(
            {"_id": {"$in": parents}, "status": {"$in": OPEN}},
            {"$inc": {"revision": 1}, "$set": {"stamp": stamp}},
        )
        await make_due(connection, parents, stamp)
        await forget(connection, [note["_id"]])
