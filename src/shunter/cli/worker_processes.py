"""The workers beside the dispatcher of `shunter up`: one that exited is started again.

A worker that keeps exiting is started ever less often, up to every half minute, so that a broken
app costs little; each exit is one line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from shunter.model.retry import Retry, backoff

RESTARTS = Retry(delay=1.0, factor=2.0, max_delay=30.0, jitter=0.0)
"""Waits before a worker is started again. The limit is not used: it is tried for ever."""

STEADY_SECONDS = 60.0
"""A worker that lived so long has not failed to start: the waits begin anew."""


class StartedProcess(Protocol):
    """What is known of a process that was started."""

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, signal: int, /) -> None: ...

    async def wait(self) -> int: ...


StartProcess = Callable[[], Awaitable[StartedProcess]]


class WorkerProcesses:
    """Keeps so many workers running until they are told to leave."""

    def __init__(
        self,
        start: StartProcess,
        *,
        now: Callable[[], float] = time.monotonic,
        restarts: Retry = RESTARTS,
    ) -> None:
        self._start, self._now, self._restarts = start, now, restarts
        self._running: set[StartedProcess] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("shunter")

    def keep(self, count: int) -> None:
        """Start workers, and again whenever one exits."""
        self._keepers += [asyncio.create_task(self._keep_one()) for _ in range(count)]

    async def stop(self) -> None:
        """Let all resign, and return when they are gone."""
        self._stopping.set()
        for process in self._running:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*self._keepers)

    async def _keep_one(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            started_at, process = self._now(), await self._start()
            self._running.add(process)
            if self._stopping.is_set():
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
            self._running.discard(process)
            if self._stopping.is_set():
                return
            lived = self._now() - started_at
            failures = 1 if lived >= STEADY_SECONDS else failures + 1
            wait = backoff(self._restarts, failures, jitter=0.0)
            self._log.warning(
                "a worker exited and is started again; its own log says why",
                action="restart",
                exit_code=code,
                lived_seconds=round(lived, 1),
                starts_in=wait,
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
