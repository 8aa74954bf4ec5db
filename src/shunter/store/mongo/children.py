"""Children of parents that complete: as they are seen, and what is written to them.

Nothing here is a transaction: a child that another write has changed meanwhile is left as it is,
and whoever took the last parent away from what a child waits for looks whether it waits still.
All of it is harmless when repeated, and when two do it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

from msgspec import Struct
from pymongo import UpdateMany

from shunter.model.job import FINAL, Status
from shunter.model.queue_order import AT_ONCE
from shunter.store.mongo import inline_edges
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import LOWEST, Document

T = TypeVar("T")

MOST_CHILDREN = 1000
"""How many one statement is about."""

SEEN: Document = {
    "type": 1,
    "status": 1,
    "lane": 1,
    "wakes": 1,
    "seq": 1,
    "after.pending": 1,
}
"""What is read of a child whose parents complete."""


class Child(Struct, frozen=True, gc=False):
    """A child as it was seen. With `wakes`, its rank, it can be queued as it is."""

    id: str
    type: str
    pending: frozenset[str]
    is_parked: bool
    has_lane: bool
    wakes: int | None
    seq: int

    @classmethod
    def of(cls, document: Document) -> Child:
        return cls(
            document["_id"],
            document["type"],
            frozenset(document["after"].get("pending", ())),
            document["status"] == Status.WAITING,
            document.get("lane") is not None,
            document.get("wakes"),
            document["seq"],
        )

    @property
    def is_plain(self) -> bool:
        """True if nothing about it is to be decided but whether it waits still."""
        return not self.is_parked or self.wakes is not None

    def is_free(self, parents: AbstractSet[str]) -> bool:
        """True if it waits for none but these."""
        return self.is_parked and self.pending <= parents


class Told(Struct, frozen=True):
    """The types of children that were queued, and parents for which that was not enough."""

    woken: frozenset[str] = frozenset()
    unclear: frozenset[str] = frozenset()


async def tell(
    connection: MongoConnection,
    children: Sequence[Child],
    parents: set[str],
    *,
    now: float,
    stamp: str,
) -> Told:
    """Write that children don't wait for these parents any more.

    A child that is seen to wait for nobody else is woken. What others wait for still may
    have ended meanwhile: so whoever was last to take a parent away looks at what is left.
    """
    free = [it for it in children if it.is_free(parents)]
    rest = [it for it in children if not it.is_free(parents)]
    writes = [*_wakes(free, now, stamp), *_takes(rest, parents)]
    if not writes:
        return Told()
    modified = await _written(connection, writes)
    woken = {child.type for child in free}
    if modified < len(children):  # another write came first, or it was our own
        rest = list(children)
        await _written(connection, list(_takes(free, parents)))
    stuck = await _stuck(connection, rest)
    if not stuck:
        return Told(frozenset(woken))
    await _written(connection, list(_wakes(stuck, now, stamp)))
    woken |= {child.type for child in stuck}
    left = await _stuck(connection, stuck)
    unclear = {parent for child in left for parent in child.pending & parents}
    return Told(frozenset(woken), frozenset(unclear))


async def make_due(connection: MongoConnection, parents: Iterable[str], stamp: str) -> None:
    """Have any dispatcher tell the dependents of those of these that have ended."""
    await connection.jobs.update_many(
        {"_id": {"$in": list(parents)}, "status": {"$in": sorted(FINAL)}},
        {
            "$set": {"dependents": True, "alarm": AT_ONCE, "stamp": stamp},
            "$inc": {"revision": 1},
        },
    )


def _wakes(children: Iterable[Child], now: float, stamp: str) -> Iterable[UpdateMany]:
    """The statements that queue children; of one that is not plain any more nothing changes."""
    by_queue: dict[str, list[str]] = {}
    for child in children:
        by_queue.setdefault("laned" if child.has_lane else "ready", []).append(child.id)
    for queue, names in by_queue.items():
        for some in _portions(names):
            yield UpdateMany(
                {"_id": {"$in": some}, "wakes": {"$gte": LOWEST}},
                {
                    "$set": {"status": Status.QUEUED.value, "updated": now, "stamp": stamp},
                    "$inc": {"revision": 1},
                    "$rename": {"wakes": queue},
                    "$unset": {"parked": True, "after.pending": True},
                },
            )


def _takes(children: Sequence[Child], parents: set[str]) -> Iterable[UpdateMany]:
    """The statements that take these parents from what children wait for."""
    for some in _portions(children):
        theirs = set[str]().union(*(child.pending for child in some)) & parents
        yield inline_edges.completed([child.id for child in some], sorted(theirs))


async def _stuck(connection: MongoConnection, children: Iterable[Child]) -> list[Child]:
    """Return those of these children that are parked, and wait for nobody any more."""
    by_id = {child.id: child for child in children}
    if not by_id:
        return []
    wanted = {
        "_id": {"$in": list(by_id)},
        "status": Status.WAITING.value,
        "after.pending": [],
    }
    query = connection.jobs.find(wanted, {"_id": True}, batch_size=MOST_CHILDREN)
    return [by_id[found["_id"]] for found in await connection.all_of(query)]


async def _written(connection: MongoConnection, writes: Sequence[UpdateMany]) -> int:
    """Write all of it, and return how many documents were changed."""
    if not writes:
        return 0
    write = partial(connection.jobs.bulk_write, writes, ordered=False)
    return (await connection.patiently(write)).modified_count


def _portions(all_of_them: Sequence[T]) -> Iterable[Sequence[T]]:
    for at in range(0, len(all_of_them), MOST_CHILDREN):
        yield all_of_them[at : at + MOST_CHILDREN]
