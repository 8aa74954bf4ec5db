"""An asynchronous setup while it is open: a task of its own, which enters and leaves.

Task groups, time-outs and cancel scopes must be left by the task that entered them. So one task
has the context manager from beginning to end, and sleeps while jobs run.
"""

from __future__ import annotations

import asyncio
from typing import Any


class AsyncSetup:
    """`open` and `close` are run on the same loop, by whatever tasks."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._is_leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Any:
        """Enter, and return what that gives."""
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[Any] = loop.create_future()
        task = self._task = loop.create_task(self._own(entered))
        try:
            await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            task.result()
        return entered.result()

    async def close(self) -> None:
        """Leave, and raise what that raises."""
        self._is_leaving.set()
        if self._task is not None:
            await self._task

    async def _own(self, entered: asyncio.Future[Any]) -> None:
        async with self._manager as value:
            entered.set_result(value)
            await self._is_leaving.wait()
