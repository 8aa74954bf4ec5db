"""The watchdog: a small process that kills a worker's children when their parent can't.

A parent that is frozen can't stop its jobs when its lease is over, and one that is killed takes
only its direct children along, not what their handlers have forked. So a process of its own watches
the parent and a shared page: the parent writes there until when the children may run, each child
its process id before it loads any of the user's code. The watchdog kills the process groups of all
children when that time has passed, and when the parent has died.

It is a process and not a thread of each child, since a handler may keep Python's lock or block
signals. It has a process group of its own, so that what stops or ends the parent's group (Ctrl-Z,
for one) does not reach it. Run as a file, without site packages: it imports little and starts fast.

Times are of CLOCK_BOOTTIME, which all processes of a host share and which, unlike CLOCK_MONOTONIC,
goes on while the machine is suspended: dispatchers elsewhere have counted that time, too.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import select
import signal
import sys
import time

LOOK_SECONDS = 0.2
"""How long a new deadline may go unnoticed."""

_RETRY_SECONDS = 0.05
_DEADLINE, _FIRST_CHILD = 0, 1
_WORD = 8


def lease_clock() -> float:
    """Return the time by which leases are counted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class WatchPage:
    """What the watchdog goes by. Each cell is one aligned word, so nobody sees half a write."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("Q")
        self._numbers = self._bytes.cast("d")

    @staticmethod
    def create(children: int) -> int:
        """Return the descriptor of a page with a cell for so many children."""
        fd = os.memfd_create("shunter-watch")
        os.ftruncate(fd, _WORD * (_FIRST_CHILD + children))
        page = WatchPage(fd)
        page.deadline = math.inf
        page.close()
        return fd

    def close(self) -> None:
        for view in (self._words, self._numbers, self._bytes):
            view.release()
        self._map.close()

    @property
    def deadline(self) -> float:
        """When all children must have ended; infinity if there is no such time."""
        return self._numbers[_DEADLINE]

    @deadline.setter
    def deadline(self, at: float) -> None:
        self._numbers[_DEADLINE] = at

    def register(self, cell: int, pid: int) -> None:
        """Name the leader of a process group that is to be watched."""
        self._words[_FIRST_CHILD + cell] = pid

    def remove(self, cell: int) -> None:
        """End the watch; must come before the child is reaped, as its id may then be another's."""
        self._words[_FIRST_CHILD + cell] = 0

    def children(self) -> list[int]:
        """Return the ids of all children that are watched."""
        return [pid for pid in self._words[_FIRST_CHILD:].tolist() if pid]


def kill_groups(leaders: list[int]) -> None:
    """Kill these process groups, also those whose leader has died."""
    for leader in leaders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def watch(page: WatchPage, parent: int) -> None:
    """Watch until the parent has died, and with it all that its children started."""
    death = select.poll()
    with contextlib.suppress(ProcessLookupError):
        death.register(os.pidfd_open(parent), select.POLLIN)
    # A parent that had died before we opened it is not ours any more.
    while os.getppid() == parent:
        # Children that were just starting may register after the others were killed: so again.
        left = page.deadline - lease_clock()
        if left <= 0:
            kill_groups(page.children())
            left = _RETRY_SECONDS
        death.poll(min(left, LOOK_SECONDS) * 1000)
    kill_groups(page.children())


def main(page_fd: int, parent: int) -> None:
    """Be the watchdog. What would end or stop it comes from the parent, as SIGKILL."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    watch(WatchPage(page_fd), parent)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
