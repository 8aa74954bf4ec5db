"""Waits that cost no time: while a handler runs in a sandbox, its sleeps move the sandbox's clock.

Covers `time.sleep` called by that name, and `asyncio.sleep` and time-outs in coroutines. A wait
that would go past the run's deadline ends there, the way a worker ends it. So it is in threads
that a handler starts (`handler_threads.py`); all others, a driver's or a test runner's, sleep as
ever.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from time import sleep as real_sleep
from typing import Any, TypeVar

from shunter.context import Terminated
from shunter.testing.clock import VirtualClock
from shunter.testing.shared_patch import SharedPatch

T = TypeVar("T")

REAL_POLL_SECONDS = 0.001
"""How long to look for real events, such as a thread that has finished, before time moves; and how
long a thread that does not move the clock sleeps, so that a loop of sleeps lets others work."""

RESOLUTION_SECONDS = 1e-6
"""A timer that is due within this time is due: times of day have no finer steps than that."""


class _ThreadTime:
    """When it is for one thread of a run: later by what it has slept itself."""

    def __init__(self, now: float, *, moves_clock: bool) -> None:
        self.now, self.moves_clock = now, moves_clock


class Sleeps:
    """The sleeps of one run, in all its threads."""

    def __init__(self, clock: VirtualClock, deadline: float | None) -> None:
        self.clock, self.deadline = clock, deadline
        self.handlers = _ThreadTime(clock(), moves_clock=True)
        self.is_over = False
        self.was_thread_cut = False

    def sleep(self, seconds: float) -> None:
        """Let the time of this thread go on by so much, and the clock to there."""
        own = _this_thread.time or self.handlers
        own.now += seconds
        if not own.moves_clock:
            real_sleep(REAL_POLL_SECONDS)
            return
        if self.deadline is not None and own.now > self.deadline:
            self.clock.advance_to(self.deadline)
            self.was_thread_cut = self.was_thread_cut or own is not self.handlers
            raise Terminated
        self.clock.advance_to(own.now)


class _ThisThread(threading.local):
    time: _ThreadTime | None = None


_this_thread = _ThisThread()
sleeps_here: ContextVar[Sleeps | None] = ContextVar("shunter_sandbox_sleeps", default=None)
"""Those that what runs here belongs to."""


def _sleeping(real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        sleeps = sleeps_here.get()
        if sleeps is None or sleeps.is_over:
            real(seconds)
        else:
            sleeps.sleep(seconds)

    return sleep


_sleep_patch = SharedPatch((time, "sleep", _sleeping))


@contextmanager
def virtual_sleep(clock: VirtualClock, deadline: float | None) -> Iterator[None]:
    """Let `time.sleep` move the clock; one that reaches the deadline raises Terminated.

    So does the end, if a thread that belongs to this has slept up to the deadline.
    """
    sleeps = Sleeps(clock, deadline)
    token, before = sleeps_here.set(sleeps), _this_thread.time
    _this_thread.time = sleeps.handlers
    try:
        with _sleep_patch:
            yield
    finally:
        sleeps.is_over = True
        _this_thread.time = before
        sleeps_here.reset(token)
    if sleeps.was_thread_cut:
        raise Terminated


def thread_time(*, moves_clock: bool) -> Callable[[], AbstractContextManager[None]]:
    """Return what gives the thread that enters it a time of its own, which begins now.

    Threads that sleep side by side so take as long as the longest of them, in whatever order they
    come; a thread that nobody waits for does not move the clock at all.
    """
    sleeps, own = sleeps_here.get(), _this_thread.time
    began = None if sleeps is None else (own or sleeps.handlers).now

    @contextmanager
    def entered() -> Iterator[None]:
        before = _this_thread.time
        _this_thread.time = None if began is None else _ThreadTime(began, moves_clock=moves_clock)
        try:
            yield
        finally:
            _this_thread.time = before

    return entered


def has_waited() -> None:
    """Let it be as late for this thread as it is by the clock: it has waited for others."""
    if (sleeps := sleeps_here.get()) is not None and (own := _this_thread.time) is not None:
        own.now = max(own.now, sleeps.clock())


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
        return runner.run(in_time(), context=copy_context())
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
            found = super().select(timeout)
            has_waited()
            return found
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(REAL_POLL_SECONDS)
        if not ready:
            self._clock.advance(timeout)
        has_waited()
        return ready
