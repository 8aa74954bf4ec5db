"""A thread that owns one connection and does what the event loop asks of it, in order.

All that is asked for in one turn of the loop is handed over together, and everything that waits
when the thread looks is one group; its callers are woken together too. Crossing between threads
is what costs here, not SQLite. A lane decides nothing about jobs.
Before each group, and every second without one, it looks whether its file is still there
(`file_monitor.py`); nothing is done on one that is not.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from shunter.errors import StoreError
from shunter.store.sqlite.connection import explained
from shunter.store.sqlite.file_monitor import FileMonitor

T = TypeVar("T")

Operation = Callable[[sqlite3.Connection], T]
"""What to do with the connection. It may be done again after it was rolled back."""

Asked = tuple["asyncio.Future[Any]", Operation[Any]]
Outcome = tuple[Any, Exception | None]


LOOK_SECONDS = 1.0


class ConnectionThread:
    """Operations on one connection, each on its own: the lane for reading."""

    def __init__(self, monitor: FileMonitor, connect: Callable[[], sqlite3.Connection]) -> None:
        self._monitor, self._connect = monitor, connect
        self._path = monitor.path
        self._generation = 0
        self._connection: sqlite3.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: list[Asked] = []

    async def start(self) -> None:
        """Open the connection; what goes wrong there is raised here."""
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[list[Asked] | None] = SimpleQueue()
        self._stopped = asyncio.Event()
        started: asyncio.Future[None] = self._loop.create_future()
        name = f"{type(self).__name__} {self._path}"
        self._thread = Thread(target=self._main, args=(started,), name=name, daemon=True)
        self._thread.start()
        await started

    async def stop(self) -> None:
        """Do everything that was asked for, then close the connection."""
        if self._loop is None:
            return
        self._hand_over()
        self._inbox.put(None)
        await self._stopped.wait()
        self._thread.join()  # it has nothing left to do
        self._loop = None

    def submit(self, operation: Operation[T]) -> asyncio.Future[T]:
        """Ask for an operation; the future has its result once it counts."""
        assert self._loop is not None
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(self._hand_over)
        self._asked.append((future, operation))
        return future

    def perform(
        self, connection: sqlite3.Connection, operations: Sequence[Operation[Any]]
    ) -> list[Outcome]:
        """Do a group of operations; an exception belongs to the one that raised it."""
        outcomes: list[Outcome] = []
        for operation in operations:
            try:
                outcomes.append((operation(connection), None))
            except Exception as error:
                outcomes.append((None, error))
        return outcomes

    def _hand_over(self) -> None:
        if self._asked:
            self._inbox.put(self._asked)
            self._asked = []

    def _main(self, started: asyncio.Future[None]) -> None:
        try:
            self._reopen()
        except Exception as error:
            self._wake([started], [(None, error)])
        else:
            self._wake([started], [(None, None)])
            self._serve()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._call(self._stopped.set)

    def _reopen(self) -> sqlite3.Connection:
        """Open the file that the path names now, in place of the one that was open."""
        connection, self._connection = self._connect(), self._connection
        if self._connection is not None:
            self._connection.close()
        self._connection, self._generation = connection, self._monitor.generation
        return connection

    def _checked(self) -> sqlite3.Connection:
        """Return a connection to the file that is at the path, or raise a StoreError."""
        self._monitor.look()
        if self._connection is None or self._generation != self._monitor.generation:
            return self._reopen()
        return self._connection

    def _ready(self) -> sqlite3.Connection:
        """Return the connection for the next group, or raise a StoreError."""
        return self._checked()

    def _next_group(self) -> list[Asked] | None:
        while True:
            try:
                return self._inbox.get(timeout=LOOK_SECONDS)
            except Empty:
                with suppress(
                    StoreError, sqlite3.Error, OSError
                ):  # who asks for something will hear of it
                    self._checked()

    def _serve(self) -> None:
        while (group := self._next_group()) is not None:
            is_last = False
            while not is_last and not self._inbox.empty():
                more = self._inbox.get()
                is_last = more is None
                group.extend(more or ())
            futures = [future for future, _ in group]
            try:
                outcomes = self.perform(self._ready(), [operation for _, operation in group])
            except Exception as error:  # nobody may wait for ever, whatever went wrong
                outcomes = [(None, error) for _ in futures]
            self._wake(futures, outcomes)
            if is_last:
                return

    def _wake(self, futures: list[asyncio.Future[Any]], outcomes: list[Outcome]) -> None:
        told = [(result, self._told(error)) for result, error in outcomes]
        self._call(lambda: _resolve(futures, told))

    def _told(self, error: Exception | None) -> Exception | None:
        """Say what a fault of the file or the system means; our own faults stay as they are."""
        if isinstance(error, sqlite3.Error):
            return explained(error, self._path)
        return StoreError(f"store {self._path}: {error}") if isinstance(error, OSError) else error

    def _call(self, callback: Callable[[], object]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


def _resolve(futures: list[asyncio.Future[Any]], outcomes: list[Outcome]) -> None:
    for future, (result, error) in zip(futures, outcomes, strict=True):
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
