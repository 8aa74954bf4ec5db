"""What the kernel knows about our processes, and what we ask of it. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
from pathlib import Path

from shunter.worker.pool.exits import oom_kills

_PR_SET_PDEATHSIG = 1
_OOM_PREFERENCE = "500"


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent's thread ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def be_killed_first() -> None:
    """Where memory runs out, rather lose this process than its parent."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_PREFERENCE)


def resident_megabytes() -> float:
    """Return how much memory this process holds."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    return pages * mmap.PAGESIZE / (1 << 20)


def is_asleep(pid: int) -> bool:
    """True if the main thread of a process waits for something."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] == b"S"


def count_oom_kills() -> int:
    """Return how often the kernel has killed for want of memory, on this host and in our group."""
    return oom_kills(_read("/proc/vmstat"), _read(f"/sys/fs/cgroup{_cgroup()}/memory.events"))


def _cgroup() -> str:
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return line[3:]
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
