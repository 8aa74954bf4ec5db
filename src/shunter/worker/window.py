"""How many jobs a worker lets itself be given, and which it gives back.

Short jobs are sent ahead of time, so that no slot idles while the next one travels; long ones
never, so that none waits here while another worker is free. The worker can't know how long a
job will take: it goes by those that just ran, and by the age of those still running.
Pure: times are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_WEIGHT = 0.1
"""What one run counts for in the mean of all."""


class Window:
    """The number of jobs that may be here at a time, running and waiting."""

    def __init__(self, slots: int, *, target: float = 0.02, ceiling: int = 256) -> None:
        self._slots, self._target = slots, target
        self._ceiling = max(ceiling, slots)
        self._mean: float | None = None
        self._ages: tuple[float, ...] = ()

    def ran(self, runs: int, seconds: float) -> None:
        """So many runs ended, which took so long together."""
        if runs == 0:
            return
        mean = seconds / runs
        if self._mean is None:
            self._mean = mean
        else:
            self._mean += (mean - self._mean) * (1.0 - (1.0 - _WEIGHT) ** runs)

    def running(self, ages: Iterable[float]) -> None:
        """Runs of these ages are still going on; this replaces what was said before."""
        self._ages = tuple(ages)

    @property
    def limit(self) -> int:
        """As many jobs as are done in `target` seconds; at least one for each slot."""
        mean = self._expected()
        if mean is None:
            return self._slots
        if mean * self._ceiling <= self._target:
            return self._ceiling
        limit = self._slots * math.ceil(self._target / mean)
        return max(self._slots, min(limit, self._ceiling))

    def _expected(self) -> float | None:
        """The mean as it would be if everything that runs ended now, where that is longer."""
        mean = self._mean
        for age in self._ages:
            if mean is not None and age > mean:
                mean += (age - mean) * _WEIGHT
        return mean


def waited_too_long(
    waiting: Iterable[tuple[int, float]], *, now: float, give_back_after: float
) -> list[int]:
    """Return the keys of those that were given at least so long ago; the oldest come first."""
    overdue = []
    for key, given_at in waiting:
        if now - given_at < give_back_after:
            break
        overdue.append(key)
    return overdue
