"""The workers of `shunter up`: one that exits is started again, ever less often."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from structlog.testing import capture_logs

from shunter.cli.worker_processes import RESTARTS, STEADY_SECONDS, WorkerProcesses
from shunter.model.retry import Retry, backoff


class Process:
    """A process that exits when it is told to, or at once with a code."""

    def __init__(self, code: int | None = None) -> None:
        self.returncode = code
        self.signals: list[int] = []
        self._ended = asyncio.Event()
        if code is not None:
            self._ended.set()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        self.exit(0)

    def exit(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def test_a_worker_that_exits_is_started_again_with_one_line_in_the_log() -> None:
    async def story() -> list[Process]:
        started: list[Process] = []

        async def start() -> Process:
            started.append(Process(2 if len(started) == 0 else None))
            return started[-1]

        kept = WorkerProcesses(start, restarts=Retry(delay=0.001, jitter=0.0))
        kept.keep(1)
        await until(lambda: len(started) == 2)
        await kept.stop()
        return started

    with capture_logs() as lines:
        started = asyncio.run(story())

    assert [(line["exit_code"], line["action"]) for line in lines] == [(2, "restart")]
    assert [process.signals for process in started] == [[], [signal.SIGTERM]]


def test_one_that_waits_to_be_started_again_does_not_hold_up_the_end() -> None:
    async def story() -> int:
        starts = 0

        async def start() -> Process:
            nonlocal starts
            starts += 1
            return Process(1)

        kept = WorkerProcesses(start, restarts=Retry(delay=3600.0, jitter=0.0))
        kept.keep(2)
        await until(lambda: starts == 2)
        async with asyncio.timeout(20):
            await kept.stop()
        return starts

    assert asyncio.run(story()) == 2


def test_the_waits_grow_and_begin_anew_after_a_steady_life() -> None:
    clock, lives = [0.0], [1.0, 1.0, STEADY_SECONDS, 0.0]

    async def story() -> None:
        async def start() -> Process:
            clock[0] += lives.pop(0)
            return Process(1 if lives else None)

        kept = WorkerProcesses(
            start, now=lambda: clock[0], restarts=Retry(delay=0.001, factor=2.0, jitter=0.0)
        )
        kept.keep(1)
        await until(lambda: not lives)
        await kept.stop()

    with capture_logs() as lines:
        asyncio.run(story())

    assert [line["starts_in"] for line in lines] == [0.001, 0.002, 0.001]
    assert backoff(RESTARTS, 99, jitter=0.0) == 30.0
