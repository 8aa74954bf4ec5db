"""A thread that looks whether another process has written.

SQLite keeps a number for each connection that changes when another one has written. To look at it
takes a few microseconds; to ask another thread to do so, each time, takes a hundred. So this
thread does nothing else, and wakes the loop only when there is something to tell.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from time import monotonic

from shunter.store.sqlite import reads

LOOK_SECONDS = 0.025

COUNT_SECONDS = 0.002
"""How long after our own commit it may take until it is counted."""

DOUBT_SECONDS = 0.25
"""Where we wrote as well, we can't tell who did; then others are told of no more often."""


class CommitWatch:
    """Calls `notify` in the loop when others have written. `ours` counts our own commits."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        ours: Callable[[], int],
        generation: Callable[[], int],
    ) -> None:
        self.ended = asyncio.Event()
        self.error: sqlite3.Error | None = None
        self._connect, self._ours, self._generation = connect, ours, generation
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, loop: asyncio.AbstractEventLoop, notify: Callable[[], None]) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(loop, notify), name="shunter-watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has let go of the file."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, notify: Callable[[], None]) -> None:
        try:
            connection = self._connect()
            try:
                self._look(connection, lambda: loop.call_soon_threadsafe(notify))
            finally:
                connection.close()
        except sqlite3.Error as error:
            self.error = error
        if not self._stopping.is_set():
            loop.call_soon_threadsafe(self.ended.set)

    def _look(self, connection: sqlite3.Connection, tell: Callable[[], object]) -> None:
        version, commits, told_at = reads.data_version(connection), self._ours(), 0.0
        generation = self._generation()
        tell()  # others may have written while the file was being opened
        while not self._stopping.wait(LOOK_SECONDS):
            if self._generation() != generation:
                raise sqlite3.OperationalError("another file was put in its place")
            now = monotonic()
            newer, ours = reads.data_version(connection), self._ours()
            if newer != version and ours == commits:
                self._stopping.wait(COUNT_SECONDS)
                ours = self._ours()
            is_others = newer != version and (ours == commits or now - told_at > DOUBT_SECONDS)
            if is_others:
                told_at = now
                tell()
            version, commits = newer, ours
