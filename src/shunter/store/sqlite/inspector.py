"""A thread that reads the file as somebody would who opens it now.

The other connections work on pages that they have in memory, and would not notice for long that
those in the file have been overwritten. Each second the file's first page is read, and every few
seconds all of it (`PRAGMA quick_check`), so seldom that this takes a hundredth of one processor.
Where an inspection finds damage, the monitor has all work refused.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from time import monotonic

from shunter.store.sqlite.connection import APPLICATION_ID, code_of, existing
from shunter.store.sqlite.file_monitor import FileChanged, FileMonitor

GLANCE_SECONDS = 1.0
FIRST_SECONDS = 2.0
"""How long the opening of a store waits for the first inspection; after that it goes on beside."""

INSPECT_SECONDS = 5.0
"""The pause between two inspections of the whole file, at least."""

IDLE_FACTOR = 100
"""The pause is so many times as long as the last inspection took."""

HURRY_FACTOR = 4
"""Likewise, while the file is damaged and somebody may be mending it."""

INTERRUPT_SECONDS = 0.05

DAMAGES = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR")

_LOG_HEADER, _FRAME_HEADER = 32, 24


class Inspector:
    """Inspects one file until it is stopped. `first` is set after the first inspection."""

    def __init__(self, monitor: FileMonitor) -> None:
        self.first = threading.Event()
        self._monitor = monitor
        self._stopping = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"Inspector {monitor.path}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, also in the midst of an inspection."""
        self._stopping.set()
        self._monitor.doubt.set()
        while self._thread.is_alive():
            if (connection := self._connection) is not None:
                with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                    connection.interrupt()  # which ends only what has begun: so it is repeated
            self._thread.join(INTERRUPT_SECONDS)

    def _run(self) -> None:
        due = monotonic()
        while not self._stopping.is_set():
            is_doubted = self._monitor.doubt.is_set()
            self._monitor.doubt.clear()
            begun = monotonic()
            is_whole = begun >= due or is_doubted
            if self._inspect(is_whole=is_whole, is_doubted=is_doubted) and is_whole:
                took = monotonic() - begun
                factor = HURRY_FACTOR if self._monitor.is_damaged else IDLE_FACTOR
                due = monotonic() + max(INSPECT_SECONDS, factor * took)
            self.first.set()
            self._monitor.doubt.wait(GLANCE_SECONDS)

    def _inspect(self, *, is_whole: bool, is_doubted: bool) -> bool:
        """Tell the monitor what the file looks like; return whether there was a verdict."""
        monitor, generation = self._monitor, self._monitor.generation
        if _is_changed(monitor):  # to open another file beside the old one's log would spoil it
            return False
        if monitor.is_empty:  # SQLite would delete the log of a file without content
            monitor.found_damaged("it is empty")
            return True
        try:
            with closing(_opened(monitor.path)) as connection:
                self._connection = connection
                fault = _fault_of_first_page(connection)
                if is_doubted and not fault:
                    fault = _fault_of_log(connection, monitor)
                if is_whole and not fault:
                    fault = _fault_of_pages(connection)
        except sqlite3.Error as error:
            if code_of(error) not in DAMAGES:
                return False  # locked, interrupted, or gone: that is for others to say
            fault = str(error)
        finally:
            self._connection = None
        if self._stopping.is_set() or monitor.generation != generation or _is_changed(monitor):
            return False
        if monitor.doubt.is_set():
            return False
        if fault:
            monitor.found_damaged(fault)
        elif is_whole:
            monitor.found_whole()
        return True


def _is_changed(monitor: FileMonitor) -> bool:
    try:
        monitor.look()
    except FileChanged:
        return True
    except Exception:
        return False
    return False


def _opened(path: str) -> sqlite3.Connection:
    """Open a file that is there, to read it."""
    return sqlite3.connect(existing(path), uri=True, timeout=1.0, isolation_level=None)


def _fault_of_first_page(connection: sqlite3.Connection) -> str:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        return "its first page is not one of Shunter's"
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return ""


def _fault_of_pages(connection: sqlite3.Connection) -> str:
    connection.execute("PRAGMA cell_size_check = ON")
    answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if answer == "ok" else " ".join(answer.split())


def _fault_of_log(connection: sqlite3.Connection, monitor: FileMonitor) -> str:
    """Compare the length of the write-ahead log with what SQLite believes to be in it."""
    _, frames, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    if frames <= 0 or monitor.log_bytes() >= _LOG_HEADER + frames * (_FRAME_HEADER + page_bytes):
        return ""
    if frames == done:  # nothing is lost: all of it is in the file by now
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return ""
    return f"of {frames} pages in its write-ahead log some were cut off"
