"""Threads in which plain functions run that share a child process.

A function that waits can't be cancelled from outside. What can be done is to raise Terminated in
its thread, which it notices when it next executes a line of Python; the rest is the parent's.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from shunter.context import Terminated
from shunter.worker.pool.shared_run import SharedRun

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class RunThreads:
    """As many threads as jobs may run at a time."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="shunter-run")
        self._lock = threading.Lock()
        self._runs: dict[int, SharedRun] = {}

    def start(self, run: SharedRun, work: Callable[[], None]) -> None:
        """Do this in a thread, on behalf of a run."""
        self._pool.submit(self._do, run, work)

    def terminate(self, run: SharedRun) -> None:
        """Raise Terminated in the thread that is at work on this run."""
        with self._lock:
            for thread_id, other in self._runs.items():
                if other is run:
                    _raise_in(ctypes.c_ulong(thread_id), ctypes.py_object(Terminated))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ended(self) -> None:
        """The handler of this thread's run has returned: it can't be reached any more."""
        thread_id = threading.get_ident()
        with self._lock:
            self._runs.pop(thread_id, None)
            _raise_in(ctypes.c_ulong(thread_id), None)

    def _do(self, run: SharedRun, work: Callable[[], None]) -> None:
        thread_id = threading.get_ident()
        with self._lock:
            _raise_in(ctypes.c_ulong(thread_id), None)  # what was meant for the run before
            self._runs[thread_id] = run
        work()
