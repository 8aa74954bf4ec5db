"""Why a child process died, in words for the job's record.

Pure: the exit status and the kernel's counters of out-of-memory kills are arguments.
"""

from __future__ import annotations

import re
from signal import SIGKILL, Signals

_COUNTER = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(*counters: str) -> int:
    """Add up the `oom_kill` lines of /proc/vmstat and of a cgroup's memory.events."""
    return sum(int(count) for text in counters for count in _COUNTER.findall(text))


def cause_of_death(returncode: int, *, by_us: str = "", oom_kills: int = 0) -> str:
    """Say how a process ended.

    `returncode` is as in `subprocess`; `by_us` says why we killed it, where we did;
    `oom_kills` is how many processes the kernel has killed for want of memory meanwhile.
    """
    if returncode >= 0:
        return f"the process exited by itself with code {returncode}"
    name = signal_name(-returncode)
    if returncode == -SIGKILL and by_us:
        return by_us
    if returncode == -SIGKILL and oom_kills > 0:
        return "out of memory: the kernel killed the process (SIGKILL)"
    return f"the process was ended by {name}"


def signal_name(number: int) -> str:
    """Return the name of a signal, also of one that Python has none for."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
