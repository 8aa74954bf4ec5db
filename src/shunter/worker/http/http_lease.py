"""When a dispatcher was last heard, and how long that is good for.

Each health check of a dispatcher says for how many seconds nobody will give this worker's jobs to
another. When that time has passed in silence, the worker is cut off and must stop them. Only the
dispatchers' own calls count: that they answer ours does not tell that they reach us.
Pure: `now` is the lease clock's, and always an argument. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

import math

LONGEST_SECONDS = 366 * 86400.0


class HttpLease:
    """The lease, as one worker has it from all its dispatchers."""

    def __init__(self, *, quiet_after: float, now: float) -> None:
        self._quiet_after = quiet_after
        self._span = math.inf
        self._heard_at = now
        self._registered_at = now

    def heard(self, span: float, *, now: float) -> bool:
        """A dispatcher called, and its promise replaces the last one.

        True where that one was over before: a worker that was frozen may find the calls of hours
        waiting, and must not take them for a sign that its jobs are still its own.
        """
        was_over = self.is_over(now=now)
        self._heard_at, self._span = now, span
        return was_over

    def registered(self, *, now: float) -> None:
        """A dispatcher knows of us: it should call before long."""
        self._registered_at = now

    @property
    def ends_at(self) -> float:
        """When our jobs may be another's; never before any promise was made."""
        return self._heard_at + self._span

    def is_over(self, *, now: float) -> bool:
        """True if our jobs may be another's by now."""
        return now >= self.ends_at

    def is_quiet(self, *, now: float) -> bool:
        """True if it is time to register again: long before the lease is over."""
        after = max(1.0, 0.8 * self._span) if math.isfinite(self._span) else self._quiet_after
        return now - max(self._heard_at, self._registered_at) >= after

    def restart(self, *, now: float) -> None:
        """Begin anew, without jobs and without a promise."""
        self._span = math.inf
        self._heard_at = now


def span_in(header: str | None) -> float | None:
    """Read `Shunter-Lease`; None where there is nothing to go by."""
    try:
        span = float(header or "")
    except ValueError:
        return None
    return span if math.isfinite(span) and 0 <= span <= LONGEST_SECONDS else None
