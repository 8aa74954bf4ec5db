"""Looks after Spark's jobs while they run: how far they are, and whether they should stop.

A run also stops at the first task that memory has ended, rather than at Spark's fourth try of it.

Jobs are known by a tag. A thread asks, for whoever runs them waits inside of Spark meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from shunter.errors import FlowError
from shunter.flow.runners.port import Stopped, TasksDone
from shunter.flow.runners.spark.session.memory_watch import MemoryWatch
from shunter.flow.runners.spark.session.tagged_jobs import tagged_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.5
END_SECONDS = 10.0
"""How long tasks may take to end once they are told to.

Spark looks every two seconds, and kills a task's Python process two seconds later. It must not
interrupt its own thread of the task: then that ends at once, and the Python process goes on.
"""


class RunWatch:
    """Watches the jobs that this thread starts inside of the `with`, under a tag of theirs.

    `progress` is called now and then. Where `should_stop` says so, they are cancelled, and leaving
    the `with` raises Stopped; tasks have ended then. Where memory was short, it raises a FlowError.
    """

    def __init__(
        self,
        session: SparkSession,
        tag: str,
        *,
        progress: Callable[[TasksDone], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs = tagged_jobs(session, tag)
        self._memory = MemoryWatch(self._jobs)
        self._fault: FlowError | None = None
        self._progress, self._should_stop = progress, should_stop
        self._is_stopping, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._jobs.begin()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(Exception):  # where Java has died, the run itself says so
            if kind is not None:
                self.cancel()
        with suppress(Exception):
            self._jobs.end()
        if self._is_stopping.is_set() and kind is not None and issubclass(kind, Exception):
            raise Stopped from error
        if self._fault is not None and kind is not None and issubclass(kind, Exception):
            raise self._fault from error

    def check(self) -> None:
        """Raise Stopped where the run should stop."""
        if self._is_stopping.is_set():
            raise Stopped

    def cancel(self) -> None:
        """Cancel the jobs, and wait until their tasks have ended."""
        deadline = time.monotonic() + END_SECONDS
        self._jobs.cancel()
        while self._jobs.tasks().active and time.monotonic() < deadline:
            time.sleep(0.05)

    def _watch(self) -> None:
        # A session that is stopped under a run fails the run itself; here it is only silence.
        with suppress(Exception):
            while not self._ended.wait(LOOK_SECONDS):
                if self._should_stop():
                    self._is_stopping.set()
                    self._jobs.cancel()
                elif (fault := self._fault or self._memory.fault(time.monotonic())) is not None:
                    self._fault = fault
                    self._jobs.cancel()
                else:
                    self._progress(self._jobs.tasks())
