"""Virtual time, and an event loop for each simulated process over it.

All processes share one clock and one line of callbacks, so a run is a single sequence of steps
that depends on nothing but the scenario. When nothing is ready, time jumps to the next timer.
A loop can be frozen: its callbacks wait and run, late, when it is thawed. It can be ended: its
callbacks never run, and nobody cleans up, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


class Livelock(Exception):
    """A run that makes more steps than any honest one."""


class VirtualTime:
    """The clock, and what is to happen when. Callbacks of one moment run in their order."""

    def __init__(self, *, max_steps: int) -> None:
        self.now = 0.0
        self.steps = 0
        self._max_steps = max_steps
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self.ready: deque[asyncio.Handle] = deque()
        self.ground = ProcessLoop(self, "the world")  # type: ignore[abstract]
        """The loop of what belongs to no process: the network, faults, and checks."""

    def add_timer(self, handle: asyncio.TimerHandle) -> None:
        heapq.heappush(self._timers, (handle.when(), next(self._numbers), handle))

    def at(self, when: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Have something happen in the world at that time."""
        return self.ground.call_at(when, call, *args)

    def run(self, *, until: Callable[[], bool], deadline: float) -> None:
        """Take steps until `until` says so after one, or the deadline is reached."""
        ready, timers = self.ready, self._timers
        current: ProcessLoop | None = None
        try:
            while self.now <= deadline:
                while ready:
                    handle = ready.popleft()
                    loop: ProcessLoop = handle._loop  # type: ignore[attr-defined]
                    if loop.is_frozen:
                        loop.held.append(handle)
                        continue
                    if handle._cancelled or loop.is_ended:
                        continue
                    if loop is not current:
                        events._set_running_loop(loop)
                        current = loop
                    self.steps += 1
                    handle._run()
                    if loop.steps_left is not None:
                        loop.count_step()
                if until() or not timers:
                    return
                if self.steps > self._max_steps:
                    raise Livelock(f"{self.steps} steps in {self.now:.1f} s")
                when = timers[0][0]
                self.now = max(self.now, when)
                while timers and timers[0][0] <= when:
                    ready.append(heapq.heappop(timers)[2])
        finally:
            events._set_running_loop(None)


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one process: what asyncio asks of a loop, and no files or sockets."""

    def __init__(self, time: VirtualTime, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_ended = False
        self.held: list[asyncio.Handle] = []
        self.steps_left: int | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_error: Callable[[str, BaseException | None], None] = lambda message, error: None
        self.on_step_limit: Callable[[], None] = lambda: None
        self._time = time

    def __repr__(self) -> str:
        return f"<loop of {self.name}>"

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on. What became due meanwhile runs now, in its order."""
        self.is_frozen = False
        self._time.ready.extendleft(reversed(self.held))
        self.held = []

    def end(self) -> None:
        """Run nothing any more, also no clean-up."""
        self.is_ended = True
        self.is_frozen = False
        self.held = []

    def end_after(self, steps: int, call: Callable[[], None]) -> None:
        """Have `call` called when so many more callbacks have run here."""
        self.steps_left, self.on_step_limit = steps, call

    def count_step(self) -> None:
        assert self.steps_left is not None
        self.steps_left -= 1
        if self.steps_left <= 0:
            self.steps_left = None
            self.on_step_limit()

    # ---- what asyncio asks for

    def time(self) -> float:
        return self._time.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._time.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._time.add_timer(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in its line and is skipped."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        if len(self.tasks) > 64:
            self.tasks = [each for each in self.tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_ended

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.on_error(context["message"], context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)
