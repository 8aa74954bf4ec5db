"""Which jobs wait for which: a document for each edge, and how they are read and marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from pymongo import UpdateMany

from shunter.model.workflow import JobEdge, ParentOutcome
from shunter.store.mongo.connection import MongoConnection
from shunter.store.mongo.documents import Document

MOST_EDGES = 1000
"""How many are asked for, or written, at once."""

BY_PARENT = [("parent", 1), ("child", 1)]
BY_CHILD = [("_id", 1)]


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
            writes = [
                UpdateMany(
                    {"_id": {"$in": names}, "outcome": ""}, {"$set": {"outcome": outcome.value}}
                )
                for outcome, names in _by_outcome(self._waves[0]).items()
            ]
            await connection.patiently(partial(connection.edges.bulk_write, writes, ordered=False))
            del self._waves[0]


def _by_outcome(edges: Iterable[JobEdge]) -> dict[ParentOutcome, list[str]]:
    found: dict[ParentOutcome, list[str]] = {}
    for edge in edges:
        found.setdefault(edge.outcome, []).append(f"{edge.child} {edge.parent}")
    return found


async def of_parents(
    connection: MongoConnection, parents: Sequence[str], *, after: JobEdge | None, limit: int
) -> list[JobEdge]:
    if limit <= 0:
        return []
    found: list[JobEdge] = []
    rest = sorted(set(parents))
    if after is not None:
        rest = [name for name in rest if name > after.parent]
        same: Document = {"parent": after.parent, "child": {"$gt": after.child}}
        found = await _edges(connection, same, limit, BY_PARENT)
    if len(found) < limit and rest:
        wanted = {"parent": {"$in": rest}}
        found += await _edges(connection, wanted, limit - len(found), BY_PARENT)
    return found


async def of_children(
    connection: MongoConnection, children: Sequence[str], *, after: JobEdge | None, limit: int
) -> list[JobEdge]:
    """Read by the ids, in whose order the parents of a child stand."""
    if limit <= 0:
        return []
    found: list[JobEdge] = []
    rest = sorted(set(children))
    if after is not None:
        rest = [name for name in rest if name > after.child]
        names = {"$gt": f"{after.child} {after.parent}", "$lt": f"{after.child}!"}
        found = await _edges(connection, {"_id": names}, limit, BY_CHILD)
    if len(found) < limit and rest:
        wanted = {"child": {"$in": rest}}
        found += await _edges(connection, wanted, limit - len(found), BY_CHILD)
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

        for each in await connection.patiently(grouped):
            found[each["_id"]["child"]].add(ParentOutcome(each["_id"]["outcome"]))
    return {child: frozenset(outcomes) for child, outcomes in found.items()}


async def _edges(
    connection: MongoConnection, wanted: Document, limit: int, order: list[tuple[str, int]]
) -> list[JobEdge]:
    query = connection.edges.find(wanted, batch_size=MOST_EDGES).sort(order).limit(limit)
    return [edge_of(document) for document in await connection.all_of(query)]


def edge_of(document: Document) -> JobEdge:
    outcome = ParentOutcome(document["outcome"])
    return JobEdge(document["child"], document["parent"], outcome, document.get("at", 0))
