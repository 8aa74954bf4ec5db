"""Events from the user's SQLite database: rows in the order of a column that rises."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.rerun.sqlite_rows import quoted

BUSY_SECONDS = 0.04
POLL_SECONDS = 0.2

_QUERY = re.compile(r"\s*(SELECT|VALUES|WITH)\b", re.IGNORECASE)


class SqliteRows:
    """The rows of a table, or of a SELECT, in the order of the column `by`.

    `by` must be unique and without NULL; its value in the last row is the position. A row becomes
    a dict, or with `type` an object of a dataclass or msgspec Struct. With `follow` there is no
    end: new rows come when they are committed, and their `by` must be higher. Only reads.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        table: str,
        *,
        by: str,
        type: Any = None,  # noqa: A002
        follow: bool = False,
    ) -> None:
        self._database, self._by, self.event_type, self._follow = Path(database), by, type, follow
        rows = f"({table.rstrip().rstrip(';')})" if _QUERY.match(table) else quoted(table)
        order = f"ORDER BY {quoted(by)} LIMIT ?"
        self._first = f"SELECT * FROM {rows} {order}"  # noqa: S608
        self._next = f"SELECT * FROM {rows} WHERE {quoted(by)} > ? {order}"  # noqa: S608
        self._connection: sqlite3.Connection | None = None
        self._last: Any = None
        self._look_at = 0.0

    def open(self, position: Any | None) -> None:
        self.close()
        self._last = position
        if not self._database.is_file():
            raise FlowError(f"{self._database}: there is no such database; give the path of a file")
        uri = f"{self._database.absolute().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)

    def read(self, limit: int) -> list[Any] | None:
        now = time.monotonic()
        if now < self._look_at:
            return []
        try:
            names, rows = self._fetched(limit + 1)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return []
            raise self._fault(error) from error
        except sqlite3.DatabaseError as error:
            raise self._fault(error) from error
        if rows:
            self._last = self._checked([row[names.index(self._by)] for row in rows], limit)
        elif self._follow:
            self._look_at = now + POLL_SECONDS
        else:
            return None
        events: list[Any] = [dict(zip(names, row, strict=True)) for row in rows[:limit]]
        if self.event_type is not None:
            events = [msgspec.convert(event, self.event_type, strict=False) for event in events]
        return events

    def position(self) -> Any:
        return self._last

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fetched(self, limit: int) -> tuple[list[str], list[Any]]:
        assert self._connection is not None, "not open"
        if self._last is None:
            cursor = self._connection.execute(self._first, (limit,))
        else:
            cursor = self._connection.execute(self._next, (self._last, limit))
        names = [column[0] for column in cursor.description]
        if self._by not in names:
            raise FlowError(
                f"{self._database}: there is no column {self._by!r}; by=… is one of "
                f"{', '.join(names)}"
            )
        return names, cursor.fetchall()

    def _checked(self, values: Sequence[Any], limit: int) -> Any:
        """Return the last value that is read, having seen that nothing gets lost behind it."""
        last = values[:limit][-1]
        if None in values[:1] or values[limit:] == [last]:
            raise FlowError(
                f"{self._database}: {self._by!r} is {last!r} in several rows or NULL; "
                "by=… names a column that is different in all rows"
            )
        return last

    def _fault(self, error: sqlite3.Error) -> FlowError:
        return FlowError(f"{self._database}: {error}; check the table or SELECT that is read")
