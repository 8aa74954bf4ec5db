"""Events into a table of the user's SQLite database, such that a repetition changes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shunter.errors import FlowError, StagingError
from shunter.flow.sinks.records import records_of
from shunter.rerun.sqlite_rows import columns_of, transaction, upsert_rows

BUSY_SECONDS = 1.0


class UpsertRows:
    """Inserts each event as a row, or updates the row that has its key.

    The key, by default the primary key, needs a unique index. What is written at once is one
    transaction. After a death, rows may be written again, and stay the same.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        table: str,
        *,
        key: str | Sequence[str] | None = None,
    ) -> None:
        self._database, self._table, self._key = Path(database), table, key
        self._connection: sqlite3.Connection | None = None

    def __del__(self) -> None:
        self.close()

    def part(self, index: int, count: int) -> UpsertRows:
        return UpsertRows(self._database, self._table, key=self._key)

    def open(self, saved: None) -> None:
        self.close()
        if not self._database.is_file():
            raise FlowError(f"{self._database}: there is no such database; create it first")
        connection = sqlite3.connect(
            self._database, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection = connection
        try:
            is_there = bool(columns_of(connection, self._table))
        except sqlite3.Error as error:
            raise self._fault(error) from error
        if not is_there:
            raise self._fault(f"there is no table {self._table!r}")

    def write(self, events: Sequence[Any]) -> int:
        connection = self._connection
        assert connection is not None, "not open"
        try:
            with transaction(connection):
                upsert_rows(connection, self._table, records_of(events), key=self._key)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return 0
            raise self._fault(error) from error
        except sqlite3.Error as error:
            raise self._fault(error) from error
        except StagingError as error:
            raise FlowError(str(error)) from error
        return len(events)

    def checkpoint(self) -> None:
        return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    abandon = close

    def _fault(self, fact: object) -> FlowError:
        return FlowError(
            f"{self._database}: {fact}; create the table with the columns that events have"
        )
