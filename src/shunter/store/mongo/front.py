"""The front of the queue: where a claim looks, and where it should not.

Dispatchers that look at the same front at the same moment want the same jobs, and all but one
of them have looked in vain. So who loses begins a little further down the next time, at random,
as if those before were gone, which in that moment they are; and who meets nobody any more comes
back to the very front. Without rivals the order is exact.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct

from shunter.model.queue_order import Head, favoured
from shunter.store.mongo.connection import Collection
from shunter.store.mongo.documents import LOWEST, Document

MOST_TYPES = 100
"""How many types one query names. The server merges up to 200 sorted lists; beyond, it sorts."""

MOST_HEADS = 16
"""Up to so many types are asked one by one whose turn it is; more of them all at once."""

MOST_RIVALS = 8.0
HALF_LIFE = 2.0

ORDER = [("ready", 1), ("seq", 1)]


class Contention:
    """How many others seem to claim at the same time, by what was lost to them of late."""

    def __init__(self) -> None:
        self._rivals = 0.0
        self._noted_at = monotonic()

    def note(self, *, bids: int, losses: int) -> None:
        """Learn from one claim; what was learnt is forgotten by half every HALF_LIFE."""
        now = monotonic()
        self._rivals *= 0.5 ** ((now - self._noted_at) / HALF_LIFE)
        self._noted_at = now
        if losses > bids // 8:
            self._rivals = min(self._rivals + 1.0, MOST_RIVALS)
        elif self._rivals < 0.25:
            self._rivals = 0.0

    def place(self, wanted: int) -> int:
        """How many jobs to leave to others, by chance."""
        ahead = int(random.random() * (self._rivals + 1.0))  # noqa: S311  nobody guesses it
        return ahead * wanted


class Reserve(Struct, frozen=True):
    """What a claim leaves alone while the rest of its batch is still being written.

    Jobs that the batch replaces, and all that stand behind the first one it makes ready: so the
    claim gets what it would have got afterwards. With `may_wake` the batch may queue others.
    """

    replaced: frozenset[str] = frozenset()
    first_made_ready: int | None = None
    may_wake: bool = False

    @property
    def is_more_coming(self) -> bool:
        """True if there may be more to claim when the batch is written."""
        return self.may_wake or self.first_made_ready is not None


async def look(
    jobs: Collection,
    types: Sequence[str],
    wanted: int,
    others: Sequence[Document] = (),
    *,
    skip: int,
    below: int | None,
) -> list[Document]:
    """The jobs of these types to claim next, behind the first `skip`, in the order of the queue.

    The first by rank, but each type has a turn before any has a second one. `others` are taken
    as if they were in the queue, too.
    """
    if not others:
        return await _look(jobs, types, wanted, (), skip=skip, below=below)
    behind = _behind(others, wanted) if len(types) == 1 else None
    below = behind if below is None else below if behind is None else min(below, behind)
    return await _look(jobs, types, wanted, others, skip=skip, below=below)


def _behind(others: Sequence[Document], wanted: int) -> int | None:
    """The rank from which on nothing in the queue can be among the first, if there is one."""
    ranks = sorted(document["ready"] for document in others)
    return ranks[wanted - 1] + 1 if len(ranks) >= wanted else None


async def _look(
    jobs: Collection,
    types: Sequence[str],
    wanted: int,
    others: Sequence[Document],
    *,
    skip: int,
    below: int | None,
) -> list[Document]:
    first: list[Document] | None = None
    if len(types) > MOST_HEADS:
        first = [*await _all_heads(jobs, types, below), *others]
        waiting_types = {document["type"] for document in first}
        types = [kind for kind in types if kind in waiting_types]
        if not types:
            return []
    front = await _first(jobs, types, wanted, skip=skip, below=below)
    front = sorted([*front, *others], key=place_of)[:wanted] if others else front
    if len(types) == 1 or len(front) < wanted:
        return front
    if first is None:
        first = [*await _heads(jobs, types, below), *others]
    heads: dict[str, Document] = {}
    for document in sorted(first, key=place_of, reverse=True):
        heads[document["type"]] = document
    turns = favoured((_head(document) for document in heads.values()), types)
    chosen = {heads[head.type]["_id"]: heads[head.type] for head in turns[:wanted]}
    for document in front:
        if len(chosen) < wanted:
            chosen.setdefault(document["_id"], document)
    return sorted(chosen.values(), key=place_of)


async def _all_heads(jobs: Collection, types: Sequence[str], below: int | None) -> list[Document]:
    """The first job of each type that has one, by one look: of many types few have any."""
    cursor = await jobs.aggregate(heads_of(types, below))
    return [found["first"] async for found in cursor]


def heads_of(types: Sequence[str], below: int | None) -> list[Document]:
    """The stages of that look; the server jumps from type to type in the index."""
    return [
        {"$match": waiting(types, below)},
        {"$sort": {"type": 1, "ready": 1, "seq": 1}},
        {"$group": {"_id": "$type", "first": {"$first": "$$ROOT"}}},
    ]


async def _heads(jobs: Collection, types: Sequence[str], below: int | None) -> list[Document]:
    """The first job of each type that has one."""
    queries = [jobs.find(waiting([kind], below)).sort(ORDER).limit(1) for kind in types]
    found = await asyncio.gather(*(query.to_list() for query in queries))
    return [document for documents in found for document in documents]


def _head(document: Document) -> Head:
    return Head(document["type"], document["ready"], document["seq"], document.get("priority", 0))


async def _first(
    jobs: Collection, types: Sequence[str], wanted: int, *, skip: int, below: int | None
) -> list[Document]:
    if len(types) <= MOST_TYPES:
        query = jobs.find(waiting(types, below), batch_size=wanted + 1)
        return await query.sort(ORDER).skip(skip).limit(wanted).to_list()
    chunks = [types[start : start + MOST_TYPES] for start in range(0, len(types), MOST_TYPES)]
    fronts = await asyncio.gather(
        *(_first(jobs, chunk, skip + wanted, skip=0, below=below) for chunk in chunks)
    )
    together = [document for part in fronts for document in part]
    return sorted(together, key=place_of)[skip : skip + wanted]


def place_of(document: Document) -> tuple[int, int]:
    """Where a job stands in the queue."""
    return document["ready"], document["seq"]


def waiting(types: Sequence[str], below: int | None = None) -> Document:
    ranks = {"$gte": LOWEST} if below is None else {"$gte": LOWEST, "$lt": below}
    return {"type": {"$in": list(types)}, "ready": ranks}
