"""A step that keeps a loop from all others is found, with its run and its line."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading

from shunter.context import enter_context
from shunter.worker.pool.loop_watch import BlockingStep, LoopWatch

PATIENCE = 30.0


class Named:
    """As much of a context as is needed."""

    job_id = run_id = "j"
    attempt = 1

    def progress(self, done: float, total: float | None = None, note: str = "") -> None: ...

    def cancelled(self) -> bool:
        return False


def test_a_blocking_step_is_found_with_its_run_and_its_line_also_in_a_task_of_its_own() -> None:
    seen: queue.Queue[BlockingStep] = queue.Queue()
    freed, go_on, run = threading.Event(), threading.Event(), Named()

    async def inner() -> None:
        go_on.wait(PATIENCE)  # blocks here

    async def handler() -> None:
        await asyncio.create_task(inner())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch = LoopWatch(loop, on_blocked=found, on_freed=freed.set, notice=0.05)
        watch.is_busy.set()
        own = contextvars.copy_context()
        own.run(enter_context, run)
        await loop.create_task(handler(), context=own)
        watch.is_busy.clear()

    def found(step: BlockingStep) -> None:
        seen.put(step)
        go_on.set()

    asyncio.run(main())

    step = seen.get(timeout=PATIENCE)
    assert step.run is run
    assert step.place.endswith(" in inner")
    assert "test_loop_watch.py:" in step.place
    assert "blocks here" in step.stack
    assert freed.wait(PATIENCE)
