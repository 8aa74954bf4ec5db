"""The one thread that writes: everything that waits becomes one transaction.

Callers are woken after its commit, so that an answer always speaks of what is on the disk, and
many of them share the price of one. An operation that raises harms nobody else: the group is
rolled back, and each of its operations gets a transaction of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from shunter.errors import StoreError
from shunter.store.sqlite.connection import patiently
from shunter.store.sqlite.connection_thread import ConnectionThread, Operation, Outcome
from shunter.store.sqlite.file_monitor import FileChanged, FileMonitor, Unacknowledged


class Writer(ConnectionThread):
    """Group commit. `commits` and `operations` count what was done so far."""

    def __init__(
        self,
        monitor: FileMonitor,
        connect: Callable[[], sqlite3.Connection],
        *,
        busy_timeout: float,
    ) -> None:
        super().__init__(monitor, connect)
        self._was_told = False
        self._is_sound = False
        self._busy_timeout = busy_timeout
        self.commits = 0
        self.operations = 0

    def perform(
        self, connection: sqlite3.Connection, operations: Sequence[Operation[Any]]
    ) -> list[Outcome]:
        try:
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), self._busy_timeout)
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return [(None, error) for _ in operations]
        try:
            results = [operation(connection) for operation in operations]
            connection.execute("COMMIT")
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(operations) == 1:
                return [(None, error)]
            return [self.perform(connection, [operation])[0] for operation in operations]
        self.commits += 1
        self.operations += len(operations)
        try:
            self._monitor.look_after_commit()
        except StoreError as error:  # what was just written is perhaps nowhere
            self._was_told = isinstance(error, FileChanged)
            generation = self._monitor.generation
            return [(None, Unacknowledged(error, result, generation)) for result in results]
        self._is_sound = True
        return [(result, None) for result in results]

    def _ready(self) -> sqlite3.Connection:
        """Glance only, if all was well after the last commit: there will be a look after this."""
        if not self._is_sound or self._connection is None:
            return self._checked()
        self._is_sound = False
        self._monitor.glance()
        return self._connection

    def _checked(self) -> sqlite3.Connection:
        """As for all; but a file that was replaced is opened, after that was told once."""
        self._is_sound = False
        try:
            return super()._checked()
        except FileChanged:
            if not self._was_told or not self._monitor.is_another:
                self._was_told = True
                raise
        self._monitor.set_old_log_aside()
        connection = self._reopen()
        self._was_told = False
        return connection
