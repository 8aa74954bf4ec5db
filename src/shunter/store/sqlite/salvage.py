"""What can still be read of a damaged file, row by row, into a new one.

Rows are read in stretches of their number. A stretch with a bad page is halved, until only rows
are left out that can't be read by themselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct

from shunter.store.sqlite.connection import connect, existing, migrate, migrations

STRETCH = 256
MOST_NAMED = 20
FARTHEST = 1 << 40
"""No store has a row of a higher number; only looked at if the highest one can't be read."""


class Salvaged(Struct):
    """What was kept and what was not."""

    jobs: int = 0
    without_payload: int = 0
    left_out: list[str] = []
    """Jobs that have not ended and whose payload is lost: they could not run."""
    unreadable: int = 0
    """How many rows of jobs can't be read; of some of them nobody knows whether they were there."""
    workers: int = 0


def salvage(damaged: str, target: str) -> Salvaged:
    """Copy all readable rows into a new file."""
    kept = Salvaged()
    new = connect(target, busy_timeout=10.0, cache_mebibytes=16)
    with closing(new), closing(sqlite3.connect(existing(damaged), uri=True)) as old:
        migrate(new, target, migrations())
        old.execute("PRAGMA query_only = ON")
        new.execute("BEGIN IMMEDIATE")
        _copy_jobs(old, new, kept)
        _copy_workers(old, new, kept)
        new.execute("COMMIT")
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return kept


def _copy_jobs(old: sqlite3.Connection, new: sqlite3.Connection, kept: Salvaged) -> None:
    columns = [name for name in _columns(new, "jobs") if name in _columns(old, "jobs")]
    listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
    at_id, at_status = columns.index("id"), columns.index("status")
    for low, high in _stretches(old):
        for row in _readable(old, f"SELECT {listed} FROM jobs", low, high, kept):  # noqa: S608
            bodies = _body(old, row[0])
            is_final = row[at_status] in ("c", "f", "x")
            if bodies is None and not is_final:
                kept.left_out.append(str(row[at_id]))
                continue
            try:
                new.execute(f"INSERT INTO jobs ({listed}) VALUES ({marks})", row)  # noqa: S608
            except sqlite3.IntegrityError:
                kept.unreadable += 1
                continue
            body = None if bodies is None else bodies[0]
            kept.jobs += 1
            kept.without_payload += bodies is None
            new.execute("INSERT OR REPLACE INTO payloads VALUES (?, ?)", (row[0], body))
    spoiled = new.execute("DELETE FROM jobs WHERE NOT json_valid(doc)").rowcount
    kept.jobs, kept.unreadable = kept.jobs - spoiled, kept.unreadable + spoiled


def _stretches(old: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield ranges of row numbers that hold all rows."""
    try:
        low, high = old.execute("SELECT min(seq), max(seq) FROM jobs").fetchone()
    except sqlite3.DatabaseError:
        low, high = 1, _last_of(old)
    for start in range(low or 1, (high or 0) + 1, STRETCH):
        yield start, min(start + STRETCH - 1, high)


def _last_of(old: sqlite3.Connection) -> int:
    """Look for the highest row number where it can't be asked for."""
    highest = 0
    for table in ("payloads", "jobs"):
        step = STRETCH
        while step < FARTHEST:
            try:
                found = old.execute(
                    f"SELECT max(seq) FROM {table} WHERE seq BETWEEN ? AND ?",  # noqa: S608
                    (step - STRETCH, 2 * step),
                ).fetchone()[0]
            except sqlite3.DatabaseError:
                found = 2 * step  # something is there that can't be read
            if found is None:
                break
            highest, step = max(highest, int(found)), 2 * step
    return highest


def _readable(
    old: sqlite3.Connection, select: str, low: int, high: int, kept: Salvaged
) -> Iterator[Sequence[Any]]:
    try:
        rows = old.execute(f"{select} WHERE seq BETWEEN ? AND ? ORDER BY seq", (low, high))
        yield from rows.fetchall()
        return
    except sqlite3.DatabaseError:
        if low == high:
            kept.unreadable += 1
            return
    middle = (low + high) // 2
    yield from _readable(old, select, low, middle, kept)
    yield from _readable(old, select, middle + 1, high, kept)


def _body(old: sqlite3.Connection, seq: int) -> tuple[bytes | None] | None:
    """Return a job's payload; None if it can't be read."""
    try:
        row: tuple[bytes | None] | None = old.execute(
            "SELECT body FROM payloads WHERE seq = ?", (seq,)
        ).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row


def _copy_workers(old: sqlite3.Connection, new: sqlite3.Connection, kept: Salvaged) -> None:
    """Copy workers as long as they can be read; the others introduce themselves again."""
    columns = [name for name in _columns(new, "workers") if name in _columns(old, "workers")]
    listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
    try:
        for row in old.execute(f"SELECT {listed} FROM workers"):  # noqa: S608
            insert = f"INSERT OR IGNORE INTO workers ({listed}) VALUES ({marks})"  # noqa: S608
            new.execute(insert, row)
            kept.workers += 1
    except sqlite3.DatabaseError:
        return


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]
