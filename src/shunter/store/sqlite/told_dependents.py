"""Telling dependents by the very commit that ends their parents: few statements for all of them.

Functions of a connection, inside the transaction of a batch. Only the usual case is dealt with:
parents that completed, of which each dependent waits on or runs. Parents with any other dependent,
or with too many of them, stay due, and any dispatcher tells theirs (`dispatch/dependents.py`).
A job that is woken keeps its document; its row says beside it when it was (`rows.woken_mark`).
"""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import as_json, woken_mark

_decode_counts = msgspec.json.Decoder(list[tuple[str, int]]).decode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_free = msgspec.json.Decoder(list[tuple[int, str, int]]).decode

COUNT_ALL = f"""
    SELECT count(*) FROM (SELECT true FROM edges WHERE parent IN {statements.LISTED} LIMIT ?)"""

COUNT_EACH = """
    SELECT json_group_array(json_array(value, (
        SELECT count(*) FROM (SELECT true FROM edges WHERE parent = value LIMIT ?2))))
    FROM json_each(?1)"""

NOTE_COMPLETED = f"""
    UPDATE edges SET outcome = 'c' WHERE parent IN {statements.LISTED} AND outcome = ''"""

IS_PLAIN = """(alarm IS NULL AND doc ->> '$.waits' IS NULL AND doc ->> '$.not_before' IS NULL
    AND doc ->> '$.place_within' IS NULL AND doc ->> '$.when' IN ('all_ok', 'all_done'))"""
"""True if a parked job runs once all its parents have completed, and nothing else in it changes."""

FREE = f"""
    SELECT json_group_array(json_array(seq, type, {IS_PLAIN} AND NOT EXISTS (
        SELECT true FROM edges WHERE child = jobs.id AND outcome > 'c')))
    FROM jobs WHERE status = 'w' AND id IN (
        SELECT child FROM edges AS told WHERE parent IN {statements.LISTED} AND NOT EXISTS (
            SELECT true FROM edges WHERE child = told.child AND outcome < 'c'))"""
"""The parked children of these parents that wait for nobody any more: number and type.

And whether it runs as it is: all have completed, and nothing else is to be decided.
"""

WAKE = f"""
    UPDATE jobs SET status = 'q', revision = revision + 1, claim = ? WHERE {statements.NUMBERED}"""

PARENTS_OF = f"""
    SELECT json_group_array(DISTINCT parent) FROM edges WHERE parent IN {statements.LISTED}
    AND child IN (SELECT id FROM jobs WHERE {statements.NUMBERED})"""

STAY_DUE = f"""
    UPDATE jobs SET alarm = 0.0, doc = json_set(doc, '$.dependents', json('true'))
    WHERE id IN {statements.LISTED}"""


class DependentsTold(Struct, frozen=True):
    """Which parents' dependents all know, and of which types jobs were woken."""

    parents: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


NOBODY_TOLD = DependentsTold()


def tell(
    connection: sqlite3.Connection, parents: Sequence[str], *, now: float, most: int
) -> DependentsTold:
    """Tell dependents of parents that were just written as completed, and as having none.

    At most `most` edges are written. Those whose dependents are not told get back that they have
    some.
    """
    told = _as_many(connection, parents, most)
    untold = list(set(parents).difference(told)) if len(told) < len(parents) else []
    listed = as_json(told)
    connection.execute(NOTE_COMPLETED, (listed,))
    free = _decode_free(reads.value(connection, FREE, listed))
    woken = [number for number, _, runs_as_is in free if runs_as_is]
    if woken:
        connection.execute(WAKE, (woken_mark(now), as_json(woken)))
    if len(woken) < len(free):
        others = [number for number, _, runs_as_is in free if not runs_as_is]
        untold += _decode_names(reads.value(connection, PARENTS_OF, listed, as_json(others)))
    if untold:
        connection.execute(STAY_DUE, (as_json(untold),))
    return DependentsTold(
        frozenset(told).difference(untold), frozenset(kind for _, kind, _ in free)
    )


def _as_many(connection: sqlite3.Connection, parents: Sequence[str], most: int) -> Sequence[str]:
    """Return those of these parents that have no more edges together than that."""
    listed = as_json(parents)
    if reads.value(connection, COUNT_ALL, listed, most + 1) <= most:
        return parents
    fitting: list[str] = []
    for name, count in _decode_counts(reads.value(connection, COUNT_EACH, listed, most + 1)):
        if count <= most:
            fitting.append(name)
            most -= count
    return fitting
