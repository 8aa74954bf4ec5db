"""When a child process is started, and how many slots there are to offer.

Children start a few at a time, so that those which are up, and the parent's heartbeats, have the
machine's time too. One that dies before it is ready makes the next wait, ever longer. It is over
only when several in a row have died and none is alive, and never because a setup fails. Pure:
`now` is always an argument.
"""

from __future__ import annotations

from shunter.model.retry import Retry, backoff

MAX_FAILURES = 5
AFTER_FAILURE = Retry(delay=0.4, max_delay=5.0)


class ChildStarts:
    """The starts of a pool of `size` children, of which `at_once` may be on their way."""

    def __init__(self, size: int, *, at_once: int) -> None:
        self._size, self._at_once = size, at_once
        self._failures = 0
        self._setup_failures = 0
        self._not_before = 0.0
        self._most_alive = 0

    def may_start(self, *, alive: int, starting: int, now: float) -> bool:
        """True if one more is to be started now, besides these."""
        is_room = alive + starting < self._size and starting < self._at_once
        return is_room and now >= self._not_before

    def came_alive(self, alive: int) -> None:
        """One more is ready, which makes this many."""
        self._failures, self._setup_failures, self._not_before = 0, 0, 0.0
        self._most_alive = max(self._most_alive, alive)

    def failed(self, *, now: float) -> None:
        """One died before it was ready, or could not be started at all."""
        self._failures += 1
        self._not_before = now + backoff(AFTER_FAILURE, self._failures, jitter=0.0)

    def setup_failed(self, *, now: float) -> None:
        """One could not open what it needs: somebody else's fault, so there is always hope."""
        self._setup_failures += 1
        self._not_before = now + backoff(AFTER_FAILURE, self._setup_failures, jitter=0.0)

    def is_hopeless(self, *, alive: int) -> bool:
        """True if there is no point in starting more."""
        return alive == 0 and self._failures >= MAX_FAILURES

    @property
    def has_begun(self) -> bool:
        """True once any child has been alive."""
        return self._most_alive > 0

    def offered(self, alive: int) -> int:
        """Return how many slots there are: one whose child is just being replaced still counts."""
        is_failing = self._failures or self._setup_failures
        return alive if is_failing else self._most_alive
