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


class JobWindow:
    """The number of jobs that may be here at a time, running and waiting.

    `slots` is how many can run; it changes as children come and go.
    """

    def __init__(self, slots: int, *, target: float = 0.02, ceiling: int = 256) -> None:
        self.slots, self._target = slots, target
        self._least_ceiling = ceiling
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
        mean, slots = self._expected(), self.slots
        if mean is None or slots == 0:
            return slots
        ceiling = max(self._least_ceiling, slots)
        if mean * ceiling <= self._target:
            return ceiling
        limit = slots * math.ceil(self._target / mean)
        return max(slots, min(limit, ceiling))

    def ahead(self, lead: float) -> int:
        """Return how many jobs are done in `lead` seconds, where all slots are taken."""
        mean = self._expected()
        if mean is None:
            return 0
        most = max(self._least_ceiling, self.slots)
        return most if mean * most <= self.slots * lead else int(self.slots * lead / mean)

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
