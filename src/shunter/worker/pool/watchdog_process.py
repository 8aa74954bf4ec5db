"""The parent's side of the watchdog: starts it, also if it dies, and tells it the deadline."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys

from shunter.worker.pool import watchdog
from shunter.worker.pool.watchdog import WatchPage, lease_clock

_AGAIN_SECONDS = 0.5


class WatchdogProcess:
    """A watchdog over at most so many children at a time."""

    def __init__(self, children: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.fd = WatchPage.create(children)
        self._page = WatchPage(self.fd)
        self._free = list(range(children))
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._is_closed = False
        self._again: asyncio.TimerHandle | None = None
        self._start()

    @property
    def pid(self) -> int | None:
        """The watchdog's process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def is_over(self) -> bool:
        """True while children would be killed as soon as they start."""
        return self._page.deadline <= lease_clock()

    def end_by(self, deadline: float | None) -> None:
        """Set when the watchdog is to kill all children, by `lease_clock()`; None for never."""
        if not self._is_closed:
            self._page.deadline = math.inf if deadline is None else deadline

    def take_cell(self) -> int:
        """Return a cell for a new child to register in; raise OSError if all are in use."""
        if not self._free:
            raise OSError("too many children are still on their way out")
        return self._free.pop()

    def give_cell(self, cell: int) -> None:
        """End the watch over a child, before it is reaped."""
        self._page.remove(cell)
        self._free.append(cell)

    def close(self) -> None:
        """End the watchdog; to be called when no child is left."""
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()
        if self._process is not None:
            self._process.kill()
            self._forget()
        self._page.close()
        os.close(self.fd)

    def _start(self) -> None:
        command = [sys.executable, "-I", "-S", watchdog.__file__, str(self.fd), str(os.getpid())]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(self.fd,),
                cwd="/",
                process_group=0,
            )
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            self._again = self._loop.call_later(_AGAIN_SECONDS, self._start)
            return
        self._loop.add_reader(self._pidfd, self._died)

    def _died(self) -> None:
        self._forget()
        self._again = self._loop.call_later(_AGAIN_SECONDS, self._start)

    def _forget(self) -> None:
        assert self._process is not None
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._process = None
