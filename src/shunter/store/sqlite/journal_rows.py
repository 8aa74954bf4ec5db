"""What jobs keep beside their records, a row each. An entry is written by one statement, which
looks at the job itself: so no other write can come between."""

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
from shunter.store.sqlite import statements

_STATEMENTS = {SENT: statements.ENTER_SIGNAL, COPIED: statements.ENTER_COPY}


def enter(connection: sqlite3.Connection, entries: Sequence[JournalEntry]) -> list[bool]:
    """Write entries, each if its job is as it must be."""
    return [
        connection.execute(
            _STATEMENTS.get(entry.attempt, statements.ENTER_OF_RUN), _row(entry)
        ).rowcount
        > 0
        for entry in entries
    ]


def page(
    connection: sqlite3.Connection, job_id: str, kind: EntryKind, after: str, most_bytes: int
) -> JournalPage:
    """Read entries of one kind by rising keys."""
    rows = connection.execute(statements.JOURNAL, (job_id, kind, after))
    try:
        return in_pages((_entry(row) for row in rows), limit=most_bytes)
    finally:
        rows.close()


def _row(entry: JournalEntry) -> tuple[object, ...]:
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
