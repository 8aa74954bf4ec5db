"""Runs `async def` handlers: one event loop for the life of a child, one handler at a time.

The loop outlives a run, so that connections which a handler keeps stay usable for the next.
Imported only when the first such handler runs, as asyncio is slow to load.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from shunter.context import Terminated
from shunter.worker.pool.interrupts import Interrupts

R = TypeVar("R")


class Coroutines:
    """The loop, and the ways to interrupt what runs on it."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._task: asyncio.Task[Any] | None = None
        self._is_told = False

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a handler to its end."""
        interrupts = self._interrupts
        self._is_told = False
        interrupts.terminate = self._terminate
        try:
            return self._runner.run(self._supervise(coroutine), context=contextvars.copy_context())
        finally:
            interrupts.cancel = interrupts.terminate = None
            coroutine.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, for whoever runs more than one handler on it."""
        return self._loop

    def close(self) -> None:
        self._runner.close()

    async def _supervise(self, coroutine: Coroutine[Any, Any, R]) -> R:
        self._task = asyncio.current_task()
        self._interrupts.cancel = self._cancel
        try:
            if self._interrupts.is_asked():
                raise asyncio.CancelledError("asked to stop before it began")
            result: R = await driven(coroutine, self._take_word)
            return result
        finally:
            self._task = None

    def _cancel(self) -> None:
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _terminate(self) -> bool:
        self._is_told = True
        if asyncio.current_task(self._loop) is not None:
            return True
        self._cancel()
        return False

    def _take_word(self) -> bool:
        is_told, self._is_told = self._is_told, False
        return is_told


@types.coroutine
def driven(coroutine: Coroutine[Any, Any, R], take_word: Callable[[], bool]) -> Any:
    """Await a handler; a cancel reaches it as Terminated where `take_word` says that it was told.

    `take_word` is asked at each cancel, and says so once.
    """
    step = coroutine.send
    value: Any = None
    while True:
        try:
            waits_for = step(value)
        except StopIteration as end:
            return end.value
        try:
            value, step = (yield waits_for), coroutine.send
        except BaseException as error:
            value, step = error, coroutine.throw
            if isinstance(error, asyncio.CancelledError) and take_word():
                value = Terminated("told to stop by SIGTERM")
