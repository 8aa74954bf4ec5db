"""A thread that looks whether another process has written.

SQLite keeps a number for each connection that changes when another one has written. To look at it
takes a few microseconds; to ask another thread to do so, each time, takes a hundred. So this
thread does nothing else, and wakes the loop only when there is something to tell. It sleeps while
nobody writes to the log at all. A commit may take a while from its last write until it counts, so
for some time after one it looks again and again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from time import monotonic

from shunter.store.sqlite import reads
from shunter.store.sqlite.file_watch import WriteAlarm

LOOK_SECONDS = 0.025

WRITING_SECONDS = 0.25
"""For so long after a write its commit is looked for."""

IDLE_SECONDS = 1.0
"""After so long it is looked anyhow: a commit on a slow disk counts later."""

COUNT_SECONDS = 0.002
"""How long after our own commit it may take until it is counted."""

DOUBT_SECONDS = 0.25
"""Where we wrote as well, we can't tell here who else did; the writer is asked no more often."""


class CommitWatch:
    """Calls `notify` in the loop when others have written. `ours` counts our own commits.

    If we wrote as well, it is for `doubt` to find out whether others did, likewise in the loop.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        log: str,
        ours: Callable[[], int],
        generation: Callable[[], int],
    ) -> None:
        self.ended = asyncio.Event()
        self.error: sqlite3.Error | None = None
        self._connect, self._ours, self._generation = connect, ours, generation
        self._alarm = WriteAlarm(log)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._writing_until = 0.0

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        notify: Callable[[], None],
        doubt: Callable[[], None],
    ) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(loop, notify, doubt), name="shunter-watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has let go of the file."""
        self._stopping.set()
        self._alarm.stop()
        if self._thread is not None:
            self._thread.join()
        self._alarm.close()

    def _run(
        self,
        loop: asyncio.AbstractEventLoop,
        notify: Callable[[], None],
        doubt: Callable[[], None],
    ) -> None:
        try:
            connection = self._connect()
            try:
                self._look(
                    connection,
                    lambda: loop.call_soon_threadsafe(notify),
                    lambda: loop.call_soon_threadsafe(doubt),
                )
            finally:
                connection.close()
        except sqlite3.Error as error:
            self.error = error
        if not self._stopping.is_set():
            loop.call_soon_threadsafe(self.ended.set)

    def _look(
        self,
        connection: sqlite3.Connection,
        tell: Callable[[], object],
        doubt: Callable[[], object],
    ) -> None:
        version, commits, doubted_at = reads.data_version(connection), self._ours(), 0.0
        is_owing = False
        generation = self._generation()
        tell()  # others may have written while the file was being opened
        while not self._rest():
            if self._generation() != generation:
                raise sqlite3.OperationalError("another file was put in its place")
            now = monotonic()
            newer, ours = reads.data_version(connection), self._ours()
            if newer != version and ours == commits:
                self._stopping.wait(COUNT_SECONDS)
                ours = self._ours()
            if newer != version and ours == commits:
                tell()
            elif newer != version:
                is_owing = True
            if is_owing and now - doubted_at > DOUBT_SECONDS:
                doubted_at, is_owing = now, False
                doubt()
            version, commits = newer, ours

    def _rest(self) -> bool:
        """Wait for the next look; True if there is to be none."""
        if self._alarm.can_tell:
            is_written = self._alarm.wait(0.0)
            if not is_written and monotonic() >= self._writing_until:
                is_written = self._alarm.wait(IDLE_SECONDS)
            if is_written:
                self._writing_until = monotonic() + WRITING_SECONDS
        return self._stopping.wait(LOOK_SECONDS)
