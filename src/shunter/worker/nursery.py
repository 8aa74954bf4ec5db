"""Keeps as many child processes as there are slots, and replaces those that leave or die.

It decides when a replacement starts, and when to give up: children that die before they are
ready are replaced ever more slowly, and after several in a row the crew is beyond help.
What a child's frames and its death mean for jobs is decided in `crew.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic

from shunter.errors import AppError
from shunter.worker.exits import cause_of_death
from shunter.worker.frames import Frame, Mark
from shunter.worker.hopper import Hopper
from shunter.worker.procfs import count_oom_kills
from shunter.worker.slot import ChildSettings, Slot

START_SECONDS = 60.0
LEAVE_SECONDS = 5.0
MAX_START_FAILURES = 5

_FIRST_DELAY, _MAX_DELAY = 0.2, 5.0
_OOM_EVERY_SECONDS = 1.0

OnFrames = Callable[[Slot, Iterator[Frame]], None]
OnDeath = Callable[[Slot, str], None]


class Nursery:
    """The children. `fatal` is set when no more can be started."""

    def __init__(
        self,
        size: int,
        settings: ChildSettings,
        hopper: Hopper,
        *,
        on_frames: OnFrames,
        on_death: OnDeath,
        on_fatal: Callable[[], None],
    ) -> None:
        self._size, self._settings, self._hopper = size, settings, hopper
        self._on_frames, self._on_death, self._on_fatal = on_frames, on_death, on_fatal
        self.slots: list[Slot] = []
        self.fatal: AppError | None = None
        self._loop = asyncio.get_running_loop()
        self._all_ready: asyncio.Future[None] = self._loop.create_future()
        self._all_gone = asyncio.Event()
        self._respawns: set[asyncio.TimerHandle] = set()
        self._start_failures = 0
        self._is_leaving = False
        self._oom_kills = count_oom_kills()
        self._oom_counted_at = monotonic()

    async def start(self) -> None:
        """Start all children and wait until each has imported the app; or raise an AppError."""
        for _ in range(self._size):
            self._spawn()
        await self._all_ready

    def told(self, slot: Slot, mark: int) -> None:
        """A child says that it is ready, or that it takes no more jobs."""
        if mark == Mark.READY:
            slot.is_ready = True
            self._start_failures = 0
            if (
                sum(slot.is_ready for slot in self.slots) == self._size
                and not self._all_ready.done()
            ):
                self._all_ready.set_result(None)
        elif mark == Mark.RETIRED:
            slot.is_retired = True
            slot.since = monotonic()
            self._replace(0.0)

    def read(self, slot: Slot) -> bool:
        """Take in what a child has sent; tell whether there was anything."""
        frames = slot.read()
        if frames is not None:
            self._on_frames(slot, frames)
        elif slot.has_ended:
            self._loop.remove_reader(slot.stream_fd)
        return frames is not None

    def tick(self, now: float) -> None:
        """Look after children that hang, and after output without end."""
        for slot in self.slots:
            age = now - slot.since
            if not slot.is_ready and age > START_SECONDS:
                slot.kill(f"it did not import the app within {START_SECONDS:g} s")
            elif slot.is_retired and age > LEAVE_SECONDS:
                slot.kill(f"it did not leave within {LEAVE_SECONDS:g} s")
            slot.transcript.trim()
        if now - self._oom_counted_at > _OOM_EVERY_SECONDS:
            self._oom_kills, self._oom_counted_at = count_oom_kills(), now

    async def leave(self, *, within: float) -> None:
        """Wait for all children to leave, as the queue has ended; kill those that don't."""
        self._is_leaving = True
        for respawn in self._respawns:
            respawn.cancel()
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

    def _spawn(self) -> None:
        try:
            slot = Slot(self._settings, self._hopper, now=monotonic())
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
        cause = cause_of_death(returncode, by_us=slot.killed_for, oom_kills=oom_kills)
        self.slots.remove(slot)
        try:
            self._on_death(slot, cause)
            if not slot.is_ready and not slot.is_dismissed:
                self._start_failed(cause, slot.transcript.take())
            elif not slot.is_retired:
                self._replace(0.0)
        finally:
            slot.close()
            if not self.slots:
                self._all_gone.set()

    def _start_failed(self, cause: str, output: str) -> None:
        self._start_failures += 1
        subject = f"a child process could not start with {self._settings.app!r}"
        error = AppError(f"{subject}: {cause}\n{output}".rstrip())
        if not self._all_ready.done():
            self._all_ready.set_exception(error)
        elif self._start_failures >= MAX_START_FAILURES:
            if self.fatal is None:
                self.fatal = error
                self._on_fatal()
        else:
            self._replace(min(_FIRST_DELAY * 2**self._start_failures, _MAX_DELAY))

    def _replace(self, delay: float) -> None:
        if self._is_leaving or self.fatal is not None:
            return
        if delay == 0.0:
            self._spawn()
            return

        def respawn() -> None:
            self._respawns.discard(handle)
            self._spawn()

        handle = self._loop.call_later(delay, respawn)
        self._respawns.add(handle)
