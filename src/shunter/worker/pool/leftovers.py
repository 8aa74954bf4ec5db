"""What a handler has forked: twins of the child, and programs that it started.

A twin is a copy of the child with its sockets and its place in the code. It must never report an
outcome or take a job, so it ends where the handler returns. Forks stay in the child's process
group, and are found there when a run was stopped and has left some behind. Linux only.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

_MADV_WIPEONFORK = 18
_ROUNDS = 20


def fork_mark() -> mmap.mmap:
    """Return a byte that is 1 in this process and 0 in all its twins, whoever forks them.

    To ask the kernel for the process id instead would cost each short job a tenth of its time.
    """
    mark = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mark.madvise(_MADV_WIPEONFORK)
    mark[0] = 1
    return mark


def leave_twin(error: BaseException | None = None) -> NoReturn:
    """End this process, which is a twin, with the exit code that Python would give it."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    if error is None:
        os._exit(0)
    code = error.code if isinstance(error, SystemExit) else 1
    os._exit(0 if code is None else code & 0xFF if isinstance(code, int) else 1)


def end_leftovers(since: float) -> bool:
    """Kill what was started in this process group since then; True if there was anything.

    `since` is monotonic time. What an earlier run has started, such as Spark's Java, is spared.
    """
    were_any = False
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    first_tick = int((since + asleep) * os.sysconf("SC_CLK_TCK"))
    for _ in range(_ROUNDS):
        found = list(_others(first_tick))
        if not found:
            break
        were_any = True
        for pid in found:
            _kill(pid)
    return were_any


def _others(first_tick: int) -> Iterator[int]:
    """Yield the other living processes of this process group that are no older than that."""
    own, group = os.getpid(), os.getpgrp()
    for entry in os.scandir("/proc"):
        is_other = entry.name.isdigit() and int(entry.name) != own
        if is_other and _is_alive_in(entry.name, group, first_tick):
            yield int(entry.name)


def _is_alive_in(pid: str, group: int, first_tick: int = 0) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    fields = stat.rpartition(b")")[2].split()
    state, its_group, started = fields[0], int(fields[2]), int(fields[19])
    return its_group == group and state not in (b"Z", b"X") and started >= first_tick


def _kill(pid: int) -> None:
    """Kill a process of this group, unless its id has become another's meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            if _is_alive_in(str(pid), os.getpgrp()):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                _wait_for_end(pidfd)
        finally:
            os.close(pidfd)


def _wait_for_end(pidfd: int) -> None:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    waiting.poll(1000)
