"""Which jobs wait for which: how edges are read and marked, wherever they stand.

Those of a job that waits for few are in its own document (`inline_edges.py`). All others have a
document each: those of a job with many parents, those that were added to a job that was stored
before, and those that older versions have written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from pymongo import UpdateMany

from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.mongo import inline_edges
from shunter.store.mongo.connection import Collection, MongoConnection
from shunter.store.mongo.documents import Document

MOST_EDGES = 1000
"""How many are asked for, or written, at once."""

BY_PARENT = [("parent", 1), ("child", 1)]
BY_CHILD = [("_id", 1)]
INLINE: Document = {"after": True}


def edge_document(edge: JobEdge) -> Document:
    """The document of a new edge; an id can't have a blank in it, so two names make one."""
    return {
        "_id": f"{edge.child} {edge.parent}",
        "child": edge.child,
        "parent": edge.parent,
        "outcome": edge.outcome.value,
        "at": edge.at,
    }


class OutcomeMarks:
    """Writes outcomes into edges that have none, which is harmless when repeated."""

    def __init__(self, edges: Sequence[JobEdge]) -> None:
        self._waves = [edges[at : at + MOST_EDGES] for at in range(0, len(edges), MOST_EDGES)]

    @property
    def is_done(self) -> bool:
        return not self._waves

    async def perform(self, connection: MongoConnection) -> None:
        while self._waves:
            outcomes = _by_outcome(self._waves[0])
            rows = [
                UpdateMany(
                    {"_id": {"$in": [_name(edge) for edge in edges]}, "outcome": ""},
                    {"$set": {"outcome": outcome.value}},
                )
                for outcome, edges in outcomes.items()
            ]
            if await _written(connection, connection.edges, rows) < len(self._waves[0]):
                await _written(connection, connection.jobs, inline_edges.marks(outcomes))
            del self._waves[0]


async def _written(connection: MongoConnection, collection: Collection, writes: list[Any]) -> int:
    result = await connection.patiently(partial(collection.bulk_write, writes, ordered=False))
    return result.modified_count


def _by_outcome(edges: Iterable[JobEdge]) -> dict[ParentOutcome, list[JobEdge]]:
    found: dict[ParentOutcome, list[JobEdge]] = {}
    for edge in edges:
        found.setdefault(edge.outcome, []).append(edge)
    return found


def _name(edge: JobEdge) -> str:
    return f"{edge.child} {edge.parent}"


async def of_parents(
    connection: MongoConnection, parents: Sequence[str], *, after: JobEdge | None, limit: int
) -> list[JobEdge]:
    if limit <= 0:
        return []
    names = sorted({name for name in parents if after is None or name >= after.parent})
    rows, inline = await asyncio.gather(
        _rows_of_parents(connection, names, after, limit),
        _inline_of_parents(connection, names, after, limit),
    )
    return sorted([*rows, *inline], key=_by_parent)[:limit]


async def _rows_of_parents(
    connection: MongoConnection, names: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    found: list[JobEdge] = []
    if after is not None:
        names = [name for name in names if name > after.parent]
        same: Document = {"parent": after.parent, "child": {"$gt": after.child}}
        found = await _rows(connection, same, limit, BY_PARENT)
    if len(found) < limit and names:
        wanted = {"parent": {"$in": names}}
        found += await _rows(connection, wanted, limit - len(found), BY_PARENT)
    return found


async def _inline_of_parents(
    connection: MongoConnection, names: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    """Read all children at once if they are few; else those of one parent after the other."""
    wanted = {"after.parents": {"$in": list(names)}}
    query = connection.jobs.find(wanted, INLINE, batch_size=limit + 2).limit(limit + 1)
    children = await connection.all_of(query)
    chosen = set(names)
    last = None if after is None else _by_parent(after)
    if len(children) <= limit:
        edges = (edge for child in children for edge in inline_edges.edges_in(child))
        found = [edge for edge in edges if edge.parent in chosen]
        return [edge for edge in found if last is None or _by_parent(edge) > last]
    found = []
    for name in names:
        first = after.child if after is not None and after.parent == name else ""
        theirs: Document = {"after.parents": name, "_id": {"$gt": first}}
        query = connection.jobs.find(theirs, INLINE, batch_size=MOST_EDGES).sort(BY_CHILD)
        children = await connection.all_of(query.limit(limit - len(found)))
        edges = (edge for child in children for edge in inline_edges.edges_in(child))
        found += [edge for edge in edges if edge.parent == name]
        if len(found) >= limit:
            break
    return found


async def of_children(
    connection: MongoConnection, children: Sequence[str], *, after: JobEdge | None, limit: int
) -> list[JobEdge]:
    if limit <= 0:
        return []
    names = sorted({name for name in children if after is None or name >= after.child})
    rows, inline = await asyncio.gather(
        _rows_of_children(connection, names, after, limit),
        _inline_of_children(connection, names, after, limit),
    )
    return sorted([*rows, *inline], key=_by_child)[:limit]


async def _rows_of_children(
    connection: MongoConnection, names: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    """Read by the ids, in whose order the parents of a child stand."""
    found: list[JobEdge] = []
    if after is not None:
        names = [name for name in names if name > after.child]
        same = {"$gt": _name(after), "$lt": f"{after.child}!"}
        found = await _rows(connection, {"_id": same}, limit, BY_CHILD)
    if len(found) < limit and names:
        wanted = {"child": {"$in": names}}
        found += await _rows(connection, wanted, limit - len(found), BY_CHILD)
    return found


async def _inline_of_children(
    connection: MongoConnection, names: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    found: list[JobEdge] = []
    rest = iter(names)
    while len(found) < limit and (some := list(islice(rest, MOST_EDGES))):
        edges = await _inline(connection, some)
        found += [it for it in edges if after is None or _by_child(it) > _by_child(after)]
    return found


async def standings(
    connection: MongoConnection, children: Sequence[str]
) -> dict[str, frozenset[ParentOutcome]]:
    """One look into the index for each child and outcome; the server jumps from one to the next."""
    found: dict[str, set[ParentOutcome]] = {child: set() for child in children}
    for start in range(0, len(children), MOST_EDGES):
        some = list(children[start : start + MOST_EDGES])
        stages: list[Document] = [
            {"$match": {"child": {"$in": some}}},
            {"$sort": {"child": 1, "outcome": 1}},
            {"$group": {"_id": {"child": "$child", "outcome": "$outcome"}}},
        ]

        async def grouped(stages: list[Document] = stages) -> list[Document]:
            return await (await connection.edges.aggregate(stages)).to_list()

        rows, inline = await asyncio.gather(
            connection.patiently(grouped), _inline(connection, some)
        )
        for each in rows:
            found[each["_id"]["child"]].add(ParentOutcome(each["_id"]["outcome"]))
        for edge in inline:
            found[edge.child].add(edge.outcome)
    return {child: frozenset(outcomes) for child, outcomes in found.items()}


async def _rows(
    connection: MongoConnection, wanted: Document, limit: int, order: list[tuple[str, int]]
) -> list[JobEdge]:
    query = connection.edges.find(wanted, batch_size=MOST_EDGES).sort(order).limit(limit)
    return [_edge_of(document) for document in await connection.all_of(query)]


async def _inline(connection: MongoConnection, children: list[str]) -> list[JobEdge]:
    """All edges that these children's documents hold."""
    wanted = {"_id": {"$in": children}, **inline_edges.HAS_ANY}
    query = connection.jobs.find(wanted, INLINE, batch_size=MOST_EDGES)
    documents = await connection.all_of(query)
    return [edge for document in documents for edge in inline_edges.edges_in(document)]


def _edge_of(document: Document) -> JobEdge:
    outcome = ParentOutcome(document["outcome"])
    return JobEdge(document["child"], document["parent"], outcome, document.get("at", 0))


def _by_parent(edge: JobEdge) -> tuple[str, str]:
    return edge.parent, edge.child


def _by_child(edge: JobEdge) -> tuple[str, str]:
    return edge.child, edge.parent
