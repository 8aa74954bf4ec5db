"""What is around one job in the queue: a bounded stretch of the index that has it, and places."""

# ruff: noqa: S608  Only texts of our own are joined here; what comes from outside is a parameter.

from __future__ import annotations

import json
import sqlite3

from shunter.model.job import Job
from shunter.model.job_limits import lanes_held, texts_between
from shunter.model.lane_claim import LANES_AT_ONCE
from shunter.model.queue_order import rank
from shunter.store.search import LANE_DEEP, QueueLook
from shunter.store.sqlite import reads, statements
from shunter.store.sqlite.rows import as_json

_READY = "status = 'q' AND alarm IS NULL AND lane IS NULL AND type = ?"
_LANED = "status = 'q' AND alarm IS NULL AND lane IS NOT NULL AND type = ? AND lane = ?"

_WAITS = "status = 'q' AND alarm IS NULL AND lane IS NOT NULL"
HEADS = f"""
    WITH RECURSIVE found(name) AS (
        SELECT min(lane) FROM jobs INDEXED BY lanes WHERE type = ?1 AND {_WAITS}
        UNION ALL
        SELECT (SELECT min(lane) FROM jobs INDEXED BY lanes
                WHERE type = ?1 AND lane > found.name AND {_WAITS})
        FROM found WHERE name IS NOT NULL LIMIT {LANES_AT_ONCE})
    SELECT name FROM (
        SELECT name, (SELECT rank FROM jobs INDEXED BY lanes
            WHERE type = ?1 AND lane = found.name AND {_WAITS} ORDER BY rank, seq LIMIT 1) AS first
        FROM found WHERE name IS NOT NULL AND name <> ?2)
    ORDER BY first LIMIT ?3"""
"""The lanes whose first jobs go first, by one step of the index for each."""

HELD = """
    SELECT limit_place, seq FROM jobs INDEXED BY limit_places
    WHERE limit_place > ? AND limit_place < ? LIMIT ?"""
TOTAL_HELD = """
    SELECT count(*) FROM jobs INDEXED BY total_places WHERE total_place > ? AND total_place < ?"""
TOTALS = """
    SELECT seq FROM jobs INDEXED BY total_places
    WHERE total_place > ? AND total_place < ? LIMIT ?"""


def line(job: Job) -> tuple[str, str, tuple[str, ...]]:
    """Return the index of the queue that a job is in, its condition and its parameters."""
    if job.lane is None:
        return "ready", _READY, (job.type,)
    return "lanes", _LANED, (job.type, job.lane)


def queue_look(connection: sqlite3.Connection, job: Job, most: int, deep: int) -> QueueLook:
    """Look at what is around a job."""
    found = connection.execute("SELECT seq FROM jobs WHERE id = ?", (job.id,)).fetchone()
    place = (rank(job), 0 if found is None else found[0])
    index, condition, known = line(job)
    stretch = f"FROM jobs INDEXED BY {index} WHERE {condition} AND (rank, seq) < (?, ?)"
    ahead = reads.value(
        connection, f"SELECT count(*) FROM (SELECT 1 {stretch} LIMIT ?)", *known, *place, most
    )
    first = connection.execute(
        f"SELECT seq {stretch} ORDER BY rank, seq LIMIT ?", (*known, *place, deep)
    )
    before = [seq for (seq,) in first.fetchall()]
    if job.lane is None:
        return QueueLook(ahead=ahead, before=_jobs(connection, before))
    names = connection.execute(HEADS, (job.type, job.lane, deep)).fetchall()
    heads = [seq for (name,) in names for seq in _first(connection, job, name)]
    low, high = texts_between(job.type)
    own = f"{job.type} {job.lane} "
    mine = _held(connection, job, own, f"{own[:-1]}!", most)
    others = _held(connection, job, low, high, most)
    totals = connection.execute(TOTALS, (low, high, deep)).fetchall()
    held = {lane: len(seqs) for lane, seqs in others.items()}
    own_seqs = mine.get(job.lane, [])
    if own_seqs:
        held[job.lane] = len(own_seqs)
    placed = dict.fromkeys([*own_seqs, *(seq for it in others.values() for seq in it)])
    placed |= dict.fromkeys(seq for (seq,) in totals)
    return QueueLook(
        ahead=ahead,
        before=_jobs(connection, before),
        heads=_jobs(connection, heads),
        held=held,
        total_held=reads.value(connection, TOTAL_HELD, low, high),
        holders=_jobs(connection, list(placed)[:deep]),
    )


def _first(connection: sqlite3.Connection, job: Job, lane: str) -> list[int]:
    found = connection.execute(
        f"SELECT seq FROM jobs INDEXED BY lanes WHERE {_LANED} ORDER BY rank, seq LIMIT ?",
        (job.type, lane, LANE_DEEP),
    )
    return [seq for (seq,) in found.fetchall()]


def _held(
    connection: sqlite3.Connection, job: Job, low: str, high: str, most: int
) -> dict[str, list[int]]:
    """Return which jobs have places of each lane."""
    found: dict[str, list[int]] = {}
    for text, seq in connection.execute(HELD, (low, high, most)).fetchall():
        (lane,) = lanes_held(job.type, [text])
        found.setdefault(lane, []).append(seq)
    return found


def _jobs(connection: sqlite3.Connection, seqs: list[int]) -> list[Job]:
    """Read jobs, in this order."""
    if not seqs:
        return []
    listed = json.dumps(seqs)
    rows = connection.execute(
        "SELECT seq, id FROM jobs WHERE seq IN (SELECT value FROM json_each(?))", (listed,)
    )
    ids = dict(rows.fetchall())
    found = reads.jobs(connection, statements.NUMBERED, (as_json(seqs),))
    by_id = {job.id: job for job in found}
    return [by_id[ids[seq]] for seq in seqs if ids.get(seq) in by_id]
