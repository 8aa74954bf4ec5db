"""What jobs keep beside their records, a row each. Entries are written by a statement that looks
at their jobs itself: so no other write can come between. Those of runs share one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from shunter.model.journal import (
    COPIED,
    SENT,
    EntryKind,
    JournalEntry,
    JournalPage,
    in_pages,
)
from shunter.store.sqlite import statements, writes
from shunter.store.sqlite.rows import Parameters

_STATEMENTS = {SENT: statements.ENTER_SIGNAL, COPIED: statements.ENTER_COPY}


def enter(connection: sqlite3.Connection, entries: Sequence[JournalEntry]) -> list[bool]:
    """Write entries, each if its job is as it must be."""
    of_runs = [entry for entry in entries if entry.attempt not in _STATEMENTS]
    entered = iter(_enter_of_runs(connection, [_row(entry) for entry in of_runs]))
    return [
        next(entered)
        if (statement := _STATEMENTS.get(entry.attempt)) is None
        else connection.execute(statement, _row(entry)).rowcount > 0
        for entry in entries
    ]


def _enter_of_runs(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> list[bool]:
    """Write what runs keep, nearly always all of it at once.

    Where some are refused, each is written again by itself to learn which: that changes nothing.
    """
    answers: list[bool] = []
    is_distinct = len({row[:3] for row in rows}) == len(rows)
    for _, chunk in writes.chunks(rows, None if is_distinct else 1):
        if writes.execute(connection, statements.enter_of_runs, chunk).rowcount == len(chunk):
            answers += [True] * len(chunk)
        elif len(chunk) == 1:
            answers.append(False)
        else:
            for row in chunk:
                answers += _enter_of_runs(connection, [row])
    return answers


def page(
    connection: sqlite3.Connection, job_id: str, kind: EntryKind, after: str, most_bytes: int
) -> JournalPage:
    """Read entries of one kind by rising keys."""
    rows = connection.execute(statements.JOURNAL, (job_id, kind, after))
    try:
        return in_pages((_entry(row) for row in rows), limit=most_bytes)
    finally:
        rows.close()


def _row(entry: JournalEntry) -> Parameters:
    return (
        entry.job_id,
        entry.kind,
        entry.key,
        entry.name,
        entry.attempt,
        entry.at,
        entry.seconds,
        entry.digest,
        entry.body,
    )


def _entry(row: tuple[str, str, str, str, int, float, float, bytes, bytes]) -> JournalEntry:
    job_id, kind, key, name, attempt, at, seconds, digest, body = row
    return JournalEntry(
        job_id=job_id,
        kind=EntryKind(kind),
        key=key,
        name=name,
        attempt=attempt,
        at=at,
        seconds=seconds,
        digest=digest,
        body=body,
    )
