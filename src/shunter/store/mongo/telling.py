"""Telling dependents by the commit that ends their parents.

Only the usual case is dealt with: parents that completed, whose children hold their edges
themselves (`inline_edges.py`) and wait on, or are queued with nothing else about them to be
decided. Other parents are written as due, and any dispatcher tells theirs
(`dispatch/dependents.py`).
A parent that is told is never marked as due: that would be one more write of each. Instead a note
says beforehand whose children are about to be told, one for the whole batch, and goes when they
are. Where a dispatcher dies in between, another one finds the note (`take_up`): those parents
that have ended become due. Those that have not are written once, which raises their revision: so
an end that is still on its way from a dispatcher believed dead is refused.
All of it is harmless when repeated, and when two do it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pymongo import UpdateMany
from pymongo.write_concern import WriteConcern

from shunter.model.job import FINAL, Job, Status
from shunter.model.queue_order import AT_ONCE
from shunter.model.workflow import has_completed_for_others
from shunter.store.mongo import inline_edges
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, OPEN, Document
from shunter.store.port import Batch

T = TypeVar("T")

MOST_CHILDREN = 1000
"""How many one statement is about."""

LEFT_TO_OTHERS_MS = 2000
"""How old a note is before another dispatcher takes it up, by the server's clock."""

SEEN: Document = {"type": 1, "status": 1, "lane": 1, "wakes": 1, "after.pending": 1}


class _Child(Struct, frozen=True):
    """A child as it was seen. `queue` is the field that its rank goes to when it is woken."""

    id: str
    type: str
    pending: frozenset[str]
    is_parked: bool
    is_plain: bool
    queue: str

    @classmethod
    def of(cls, document: Document) -> _Child:
        after = document["after"]
        is_parked = document["status"] == Status.WAITING
        return cls(
            document["_id"],
            document["type"],
            frozenset(after.get("pending", ())),
            is_parked,
            not is_parked or "wakes" in document,
            "ready" if document.get("lane") is None else "laned",
        )


class Telling:
    """Tells the dependents of the jobs that a batch completes, as far as it may.

    First `look` and `announce`, also at the same time; then the batch's jobs are written `as_told`,
    then `tell`.
    """

    def __init__(self, batch: Batch, *, stamp: str) -> None:
        names = [job.id for job in batch.replacements]
        is_each_once = len(names) == len(set(names))
        self._most = batch.tells if is_each_once else 0
        self._now, self._stamp = batch.now, stamp
        self._ended = [
            job.id for job in batch.replacements if self._most and has_completed_for_others(job)
        ]
        self._children: list[_Child] = []
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
        self._children = [_Child.of(document) for document in documents]
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
        await connection.patiently(
            partial(connection.tellings.update_one, {"_id": self._stamp}, note, upsert=True)
        )

    def as_told(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the batch's jobs as they are to be written."""
        return [replace(it, dependents=False) if it.id in self._chosen else it for it in jobs]

    async def tell(self, connection: MongoConnection, written: Collection[str]) -> None:
        """Tell the dependents of those that were written, and take the note back."""
        parents = self._chosen & set(written)
        due = self._chosen - parents  # perhaps they were written, and again by somebody else
        due |= await self._told(connection, parents)
        if due:
            await connection.patiently(partial(make_due, connection, due, self._stamp))
        self.told = frozenset(parents - due)
        await connection.patiently(partial(_forget, connection, self._stamp))

    async def _told(self, connection: MongoConnection, parents: set[str]) -> set[str]:
        """Write what children wait for no more; return the parents for which that was not enough.

        A child that is seen to wait for nobody else is woken. What others wait for still may
        have ended meanwhile: so whoever was last to take a parent away looks at what is left.
        """
        told = [child for child in self._children if child.pending & parents]
        free = [it for it in told if it.is_parked and it.pending <= parents]
        rest = [it for it in told if not (it.is_parked and it.pending <= parents)]
        writes = [*self._wakes(free), *_takes(rest, parents)]
        if not writes:
            return set()
        modified = await _written(connection, writes)
        self.woken = frozenset(child.type for child in free)
        if modified < len(told):  # another write came first, or it was our own
            rest = told
            writes = list(_takes(free, parents))
            await _written(connection, writes)
        stuck = await self._stuck(connection, rest)
        if not stuck:
            return set()
        await _written(connection, list(self._wakes(stuck)))
        self.woken |= {child.type for child in stuck}
        left = await self._stuck(connection, stuck)
        return {parent for child in left for parent in child.pending & parents}

    def _wakes(self, children: Iterable[_Child]) -> Iterable[UpdateMany]:
        """The statements that queue children; of one that is not plain any more nothing changes."""
        by_queue: dict[str, list[str]] = {}
        for child in children:
            by_queue.setdefault(child.queue, []).append(child.id)
        for queue, names in by_queue.items():
            for some in _portions(names):
                yield UpdateMany(
                    {"_id": {"$in": some}, "wakes": {"$gte": LOWEST}},
                    {
                        "$set": {
                            "status": Status.QUEUED.value,
                            "updated": self._now,
                            "stamp": self._stamp,
                        },
                        "$inc": {"revision": 1},
                        "$rename": {"wakes": queue},
                        "$unset": {"parked": True, "after.pending": True},
                    },
                )

    async def _stuck(self, connection: MongoConnection, children: Iterable[_Child]) -> list[_Child]:
        """Return those of these children that are parked, and wait for nobody any more."""
        by_id = {child.id: child for child in children}
        wanted = {
            "_id": {"$in": list(by_id)},
            "status": Status.WAITING.value,
            "after.pending": [],
        }
        query = connection.jobs.find(wanted, {"_id": True}, batch_size=MOST_CHILDREN)
        return [by_id[found["_id"]] for found in await connection.all_of(query)]


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
        await _forget(connection, note["_id"])


async def make_due(connection: MongoConnection, parents: Iterable[str], stamp: str) -> None:
    """Have any dispatcher tell the dependents of those of these that have ended."""
    await connection.jobs.update_many(
        {"_id": {"$in": list(parents)}, "status": {"$in": sorted(FINAL)}},
        {
            "$set": {"dependents": True, "alarm": AT_ONCE, "stamp": stamp},
            "$inc": {"revision": 1},
        },
    )


async def _forget(connection: MongoConnection, name: str) -> None:
    """Remove a note; one that comes back after a failover costs only a look."""
    soon = connection.tellings.with_options(write_concern=WriteConcern(w=1))
    await soon.delete_one({"_id": name})


async def _written(connection: MongoConnection, writes: Sequence[UpdateMany]) -> int:
    """Write all of it, and return how many documents were changed."""
    if not writes:
        return 0
    write = partial(connection.jobs.bulk_write, writes, ordered=False)
    return (await connection.patiently(write)).modified_count


def _takes(children: Sequence[_Child], parents: set[str]) -> Iterable[UpdateMany]:
    """The statements that take these parents from what children wait for."""
    for some in _portions(children):
        theirs = set[str]().union(*(child.pending for child in some)) & parents
        yield inline_edges.completed([child.id for child in some], sorted(theirs))


def _portions(all_of_them: Sequence[T]) -> Iterable[Sequence[T]]:
    for at in range(0, len(all_of_them), MOST_CHILDREN):
        yield all_of_them[at : at + MOST_CHILDREN]
