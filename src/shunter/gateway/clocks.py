"""The clocks of a dispatcher process: one that never jumps, and the one its host shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from shunter.model.presence import HostClock

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SteadyClock:
    """The time of day when the process began, and from then on the seconds that pass.

    Somebody may set the time of day anew while we run: leases and waits must not notice.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._ahead = wall() - monotonic()

    def __call__(self) -> float:
        return self._ahead + self._monotonic()

    @property
    def jumped_by(self) -> float:
        """By how much the time of day was set forward since the process began."""
        return self._wall() - self()


def host_clock() -> HostClock:
    """Return this host's clock; its name changes with every start of the host."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = f"since {round(time.time() - time.monotonic(), -1):.0f}"
    return HostClock(boot, time.monotonic)
