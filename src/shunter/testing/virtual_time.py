"""Waits that cost no time: while a handler runs in a sandbox, its sleeps move the sandbox's clock.

Covers `time.sleep` called by that name, and `asyncio.sleep` and time-outs in coroutines. A wait
that would go past the run's deadline ends there, the way a worker ends it. Threads that were there
before, a driver's or a test runner's, sleep as ever.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from shunter.context import Terminated
from shunter.testing.clock import VirtualClock

T = TypeVar("T")

REAL_POLL_SECONDS = 0.001
"""How long to look for real events, such as a thread that has finished, before time moves."""

RESOLUTION_SECONDS = 1e-6
"""A timer that is due within this time is due: times of day have no finer steps than that."""


@contextmanager
def virtual_sleep(clock: VirtualClock, deadline: float | None) -> Iterator[None]:
    """Let `time.sleep` move the clock; one that reaches the deadline raises Terminated."""

    real_sleep, me = time.sleep, threading.get_ident()
    others = {thread.ident for thread in threading.enumerate() if thread.ident != me}

    def sleep(seconds: float) -> None:
        if threading.get_ident() in others:
            real_sleep(seconds)
            return
        until = clock() + seconds
        if deadline is not None and until > deadline:
            clock.advance_to(deadline)
            raise Terminated
        clock.advance_to(until)

    with mock.patch.object(time, "sleep", sleep):
        yield


def virtual_runner(clock: VirtualClock) -> asyncio.Runner:
    """Return a runner whose loop never waits, for what outlives one run."""
    return asyncio.Runner(loop_factory=lambda: _VirtualLoop(clock))


def run_virtually(
    work: Coroutine[Any, Any, T],
    clock: VirtualClock,
    deadline: float | None,
    runner: asyncio.Runner | None = None,
) -> T:
    """Run a coroutine on a loop that never waits; raise TimeoutError at the deadline.

    It has a loop of its own, unless there is a `runner` that has nothing else to run.
    """

    async def in_time() -> T:
        async with asyncio.timeout(None if deadline is None else deadline - clock()):
            return await work

    if runner is not None and not runner.get_loop().is_running():
        return runner.run(in_time())
    with virtual_runner(clock) as own:
        return own.run(in_time())


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_Patient(clock))
        self._clock = clock
        self._clock_resolution = RESOLUTION_SECONDS

    def time(self) -> float:
        return self._clock()


class _Patient(selectors.DefaultSelector):
    """Where a loop would wait for its next timer, the clock moves there instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(REAL_POLL_SECONDS)
        if not ready:
            self._clock.advance(timeout)
        return ready
