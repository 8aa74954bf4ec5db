"""Keeps as many child processes as there are slots, and replaces those that leave or die.

When a child is started, and when to give up, is decided in `starts.py`. What a child's frames
and its death mean for jobs is decided in `process_pool.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from time import monotonic

import structlog

from shunter.errors import AppError
from shunter.worker.pool.child import CLOSE_FAILED, SETUP_FAILED, START_FAILED
from shunter.worker.pool.child_queue import ChildQueue
from shunter.worker.pool.exits import cause_of_death
from shunter.worker.pool.frames import Frame, Mark
from shunter.worker.pool.slot import ChildSettings, Slot
from shunter.worker.pool.starts import ChildStarts
from shunter.worker.pool.watchdog_process import WatchdogProcess
from shunter.worker.procfs import count_oom_kills

START_SECONDS = 60.0
TOGETHER_SECONDS = 0.5
LEAVE_SECONDS = 5.0

_OOM_EVERY_SECONDS = 1.0
_SHOWN_CHARACTERS = 2000

OnFrames = Callable[[Slot, Iterator[Frame]], None]
OnDeath = Callable[[Slot, str], None]


class ChildSupervisor:
    """The children. `fatal` is set when no more can be started."""

    def __init__(
        self,
        size: int,
        settings: ChildSettings,
        queue: ChildQueue,
        watchdog: WatchdogProcess,
        *,
        on_frames: OnFrames,
        on_death: OnDeath,
        on_fatal: Callable[[], None],
    ) -> None:
        self._size, self._settings = size, settings
        self._queue, self._watchdog = queue, watchdog
        self._on_frames, self._on_death, self._on_fatal = on_frames, on_death, on_fatal
        self.slots: list[Slot] = []
        self.fatal: AppError | None = None
        self._loop = asyncio.get_running_loop()
        self._starts = ChildStarts(size, at_once=max(2, len(os.sched_getaffinity(0))))
        self._first_ready: asyncio.Future[None] = self._loop.create_future()
        self._all_ready = asyncio.Event()
        self._all_gone = asyncio.Event()
        self._is_leaving = False
        self._setup_fault = ""
        self._oom_kills = count_oom_kills()
        self._oom_counted_at = monotonic()
        self._log = structlog.get_logger("shunter.worker")

    @property
    def alive(self) -> int:
        """How many children can do jobs."""
        return sum(slot.is_ready and not slot.is_retired for slot in self.slots)

    @property
    def offered(self) -> int:
        """How many slots there are to offer to dispatchers."""
        return self._starts.offered(self.alive)

    async def start(self) -> None:
        """Begin to start children; return when one has imported the app, or raise an AppError.

        A few that take no longer than the first are waited for; the rest come up later.
        """
        self._fill()
        await self._first_ready
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOGETHER_SECONDS):
                await self._all_ready.wait()

    def told(self, slot: Slot, mark: int) -> None:
        """A child says that it is ready, or that it takes no more jobs."""
        if mark == Mark.READY:
            slot.is_ready = True
            if self._setup_fault:
                self._setup_fault = ""
                self._log.info("setups are open again", action="setup")
            self._starts.came_alive(self.alive)
            if not self._first_ready.done():
                self._first_ready.set_result(None)
            if self.alive == self._size:
                self._all_ready.set()
        elif mark == Mark.RETIRED:
            slot.is_retired = True
            slot.since = monotonic()
        self._fill()

    def read(self, slot: Slot) -> bool:
        """Take in what a child has sent; tell whether there was anything."""
        frames = slot.read()
        if frames is not None:
            self._on_frames(slot, frames)
        elif slot.has_ended:
            self._loop.remove_reader(slot.stream_fd)
        return frames is not None

    def tick(self, now: float) -> None:
        """Look after children that hang or are missing, and after output without end."""
        for slot in self.slots:
            age = now - slot.since
            if not slot.is_ready and age > START_SECONDS:
                slot.kill(f"it did not import the app within {START_SECONDS:g} s")
            elif slot.is_retired and age > LEAVE_SECONDS:
                slot.kill(f"it did not leave within {LEAVE_SECONDS:g} s")
            slot.run_log.trim()
        if now - self._oom_counted_at > _OOM_EVERY_SECONDS:
            self._oom_kills, self._oom_counted_at = count_oom_kills(), now
        self._fill()

    async def leave(self, *, within: float) -> None:
        """Wait for all children to leave, as the queue has ended; kill those that don't."""
        self._is_leaving = True
        for slot in self.slots:
            if not slot.is_ready:
                slot.dismiss("it was not needed any more")
        if not self.slots:
            return
        try:
            async with asyncio.timeout(within):
                await self._all_gone.wait()
        except TimeoutError:
            for slot in self.slots:
                slot.kill(f"it did not leave within {within:g} s")
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._all_gone.wait()

    def _fill(self) -> None:
        """Start a child if one is missing; the next only when the loop has seen to the rest."""
        if self._is_leaving or self.fatal is not None or self._watchdog.is_over:
            return
        starting = sum(not slot.is_ready for slot in self.slots)
        if self._starts.may_start(alive=self.alive, starting=starting, now=monotonic()):
            self._spawn()
            self._loop.call_soon(self._fill)

    def _spawn(self) -> None:
        try:
            slot = Slot(self._settings, self._queue, self._watchdog, now=monotonic())
        except OSError as error:
            self._start_failed(f"the system refuses it: {error}", "")
            return
        self._all_gone.clear()
        self.slots.append(slot)
        self._loop.add_reader(slot.stream_fd, self.read, slot)
        self._loop.add_reader(slot.pidfd, self._died, slot)

    def _died(self, slot: Slot) -> None:
        self._loop.remove_reader(slot.stream_fd)
        self._loop.remove_reader(slot.pidfd)
        while self.read(slot):
            pass
        returncode = slot.reap()
        oom_kills = count_oom_kills() - self._oom_kills if returncode < 0 else 0
        by_us = slot.killed_for
        if self._watchdog.is_over:
            by_us = by_us or "its worker's lease was over while the worker's parent did not run"
        cause = cause_of_death(returncode, by_us=by_us, oom_kills=oom_kills)
        self.slots.remove(slot)
        try:
            self._on_death(slot, cause)
            if returncode == SETUP_FAILED:
                self._setup_failed(slot.run_log.take())
            elif returncode == CLOSE_FAILED:
                self._log.warning(_last_line(slot.run_log.take()), action="child_end")
            elif not slot.is_ready and not slot.is_dismissed and not self._watchdog.is_over:
                can_import = returncode != START_FAILED
                self._start_failed(cause, slot.run_log.take(), can_import=can_import)
            self._fill()
        finally:
            slot.close()
            if not self.slots:
                self._all_gone.set()

    def _setup_failed(self, output: str) -> None:
        """Try again later, for as long as it takes; say so once for each reason."""
        self._starts.setup_failed(now=monotonic())
        reason = _last_line(output)
        if reason != self._setup_fault:
            self._setup_fault = reason
            self._log.warning(
                "no process can start, so jobs wait; trying again"
                if not self.alive
                else "a process could not start, trying again",
                action="setup",
                reason=reason,
            )

    def _start_failed(self, cause: str, output: str, *, can_import: bool = True) -> None:
        """Try again later, unless there is no hope: one that never could import never will."""
        self._starts.failed(now=monotonic())
        subject = f"a child process could not start with {self._settings.app!r}"
        error = AppError(f"{subject}: {cause}\n{output}".rstrip())
        is_first = not self._starts.has_begun and not self.slots  # no other may still come alive
        if self._starts.is_hopeless(alive=self.alive) or (is_first and not can_import):
            if not self._first_ready.done():
                self._first_ready.set_exception(error)
            elif self.fatal is None:
                self.fatal = error
                self._on_fatal()
        else:
            self._log.warning(
                "a child process could not start, trying again",
                action="child_start",
                cause=cause,
                output=output[-_SHOWN_CHARACTERS:],
            )


def _last_line(output: str) -> str:
    lines = output.rstrip().splitlines()
    return lines[-1][:_SHOWN_CHARACTERS] if lines else ""
