"""Which jobs wait for which: graphs as they are written, edges as they are read.

Functions of a connection, free of threads and loops. A graph is written inside the transaction of
its batch, and what stands in its way is looked up before anything of it is.
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

import msgspec

from shunter.errors import JobRefused
from shunter.model.job import Job
from shunter.model.workflow import JobEdge, JobGraph, ParentOutcome, answer_to_graph
from shunter.store.sqlite import reads, statements, writes
from shunter.store.sqlite.rows import Parameters, as_json, inserted

_decode_edges = msgspec.json.Decoder(list[tuple[str, str, ParentOutcome, int]]).decode
_decode_standings = msgspec.json.Decoder(list[tuple[str, str]]).decode

ATTACH = f"""
    UPDATE jobs SET revision = revision + 1, alarm = iif(ended IS NULL, alarm, 0.0),
        doc = json_set(doc, '$.revision', revision + 1, '$.dependents', json('true'))
    WHERE id IN {statements.LISTED}"""
"""From now on these jobs have dependents; of one that has ended, they are due."""

ANY_BETWEEN = "SELECT EXISTS (SELECT true FROM jobs WHERE id BETWEEN ? AND ?)"
"""Whether any of these ids can be taken: those of a graph were mostly made just now."""

TOUCH = f"""
    UPDATE jobs SET revision = revision + 1,
        doc = json_set(doc, '$.revision', revision + 1)
    WHERE id IN {statements.LISTED}"""

_LISTED_EDGES = "SELECT json_group_array(json_array(child, parent, outcome, at)) FROM"
OF_PARENTS = f"""{_LISTED_EDGES} (
    SELECT * FROM edges WHERE parent IN {statements.LISTED} ORDER BY parent, child LIMIT ?)"""
OF_PARENT_AFTER = f"""{_LISTED_EDGES} (
    SELECT * FROM edges WHERE parent = ? AND child > ? ORDER BY child LIMIT ?)"""
OF_CHILDREN = f"""{_LISTED_EDGES} (
    SELECT * FROM edges WHERE child IN {statements.LISTED} ORDER BY child, parent LIMIT ?)"""
OF_CHILD_AFTER = f"""{_LISTED_EDGES} (
    SELECT * FROM edges WHERE child = ? AND parent > ? ORDER BY parent LIMIT ?)"""

_LETTERS = " || ".join(
    f"iif(EXISTS (SELECT true FROM edges WHERE child = value AND outcome = '{it.value}'), "
    f"'{it.value or '-'}', '')"
    for it in ParentOutcome
)
STANDINGS = f"SELECT json_group_array(json_array(value, {_LETTERS})) FROM json_each(?)"
"""One look into the index for each outcome that there is, however many edges a child has."""


@cache
def insert_edges(rows: int) -> str:
    places = ", ".join(["(?, ?, ?)"] * rows)
    return f"INSERT OR IGNORE INTO edges (parent, child, at) VALUES {places}"


@cache
def note_outcomes(rows: int) -> str:
    places = ", ".join(["(?, ?, ?)"] * rows)
    return f"""
        UPDATE edges SET outcome = new.column3 FROM (VALUES {places}) AS new
        WHERE parent = new.column1 AND child = new.column2 AND outcome = ''"""


def row(edge: JobEdge) -> Parameters:
    return edge.parent, edge.child, edge.outcome.value


def by_depth(graph: JobGraph) -> list[Job]:
    """Return the jobs of a graph, those first that can run first.

    Their rows then lie as they are going to be written: those that start, end and are woken
    together share pages, and a page is what a commit writes. The queue goes by their ranks.
    """
    depths: dict[str, int] = {}
    depth_of = depths.get
    for edge in graph.edges:
        depth = depth_of(edge.parent, 0) + 1
        if depth > depth_of(edge.child, 0):
            depths[edge.child] = depth
    levels: list[list[Job]] = [[] for _ in range(max(depths.values(), default=0) + 1)]
    for job in graph.jobs:
        levels[depth_of(job.id, 0)].append(job)
    return [job for level in levels for job in level]


class GraphRows(msgspec.Struct, frozen=True):
    """A graph on its way into the file; `laid` are its jobs in the order of their rows."""

    graph: JobGraph
    laid: list[Job]
    jobs: list[Parameters]
    edges: list[Parameters]

    @classmethod
    def of(cls, graph: JobGraph) -> GraphRows:
        laid = by_depth(graph)
        rows = [inserted(job) for job in laid]
        return cls(graph, laid, rows, [(it.parent, it.child, it.at) for it in graph.edges])


def plant(connection: sqlite3.Connection, rows: GraphRows) -> list[Job] | JobRefused:
    """Insert a graph as a whole, or say why nothing of it was written."""
    graph = rows.graph
    ids = [job.id for job in graph.jobs]
    is_any_near = reads.value(connection, ANY_BETWEEN, min(ids), max(ids))
    if is_any_near and reads.revisions(connection, ids):
        found = reads.get(connection, ids, payload=True)
        return answer_to_graph(graph, {job.id: job for job in found if job is not None})
    if outside := graph.outside:
        known = reads.jobs(connection, statements.WITH_ID, (as_json(outside),))
        refusal = graph.refusal({job.id: job for job in known})
        if refusal is not None:
            return refusal
        parents = graph.parents
        connection.execute(ATTACH, (as_json([name for name in outside if name in parents]),))
        connection.execute(TOUCH, (as_json([name for name in outside if name not in parents]),))
    stored = writes.insert(connection, rows.laid, rows.jobs)
    assert all(job is offered for job, offered in zip(stored, rows.laid, strict=True))
    for _, chunk in writes.chunks(rows.edges):
        writes.execute(connection, insert_edges, chunk)
    return list(graph.jobs)


def note(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> None:
    """Write outcomes into edges that have none."""
    for _, chunk in writes.chunks(rows):
        writes.execute(connection, note_outcomes, chunk)


def of_parents(
    connection: sqlite3.Connection, parents: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    found: list[JobEdge] = []
    rest = sorted(set(parents))
    if after is not None:
        rest = [name for name in rest if name > after.parent]
        found = _edges(connection, OF_PARENT_AFTER, after.parent, after.child, limit)
    if len(found) < limit and rest:
        found += _edges(connection, OF_PARENTS, as_json(rest), limit - len(found))
    return found


def of_children(
    connection: sqlite3.Connection, children: Sequence[str], after: JobEdge | None, limit: int
) -> list[JobEdge]:
    found: list[JobEdge] = []
    rest = sorted(set(children))
    if after is not None:
        rest = [name for name in rest if name > after.child]
        found = _edges(connection, OF_CHILD_AFTER, after.child, after.parent, limit)
    if len(found) < limit and rest:
        found += _edges(connection, OF_CHILDREN, as_json(rest), limit - len(found))
    return found


def standings(
    connection: sqlite3.Connection, children: Sequence[str]
) -> dict[str, frozenset[ParentOutcome]]:
    text = reads.value(connection, STANDINGS, as_json(children))
    return {
        child: frozenset(ParentOutcome(it.replace("-", "")) for it in letters)
        for child, letters in _decode_standings(text)
    }


def _edges(connection: sqlite3.Connection, text: str, *parameters: object) -> list[JobEdge]:
    return [JobEdge(*found) for found in _decode_edges(reads.value(connection, text, *parameters))]
