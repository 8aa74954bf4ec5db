"""Small documents that dispatchers share, a row each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from shunter.model.record import Record, RecordKind
from shunter.store.sqlite import statements


def listed(
    connection: sqlite3.Connection,
    kind: RecordKind,
    *,
    before: str | None,
    limit: int | None,
    names: Sequence[str] | None,
) -> list[Record]:
    """Read records of one kind by falling names."""
    most = -1 if limit is None else limit
    if names is None:
        found = connection.execute(statements.RECORDS, (kind, before, most))
    else:
        wanted = json.dumps(names)
        found = connection.execute(statements.NAMED_RECORDS, (kind, before, most, wanted))
    return [
        Record(kind=kind, name=name, revision=revision, document=text.encode())
        for name, revision, text in found
    ]


def swap(connection: sqlite3.Connection, record: Record) -> bool:
    """Write a record if the stored one is the one before it."""
    row = (record.kind, record.name, record.revision)
    if record.document is None:
        connection.execute(statements.REMOVE_RECORD, row)
        return connection.execute(statements.HAS_RECORD, row[:2]).fetchone() is None
    statement = statements.MAKE_RECORD if record.revision == 1 else statements.SWAP_RECORD
    return connection.execute(statement, (*row, record.document.decode())).rowcount > 0
