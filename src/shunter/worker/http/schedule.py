"""When to try again, and with which dispatcher. Pure: randomness is an argument.

After a failure the next dispatcher of the list is asked at once. When all have failed, there is
a pause, which grows from round to round; a part of it is random, so that workers which lost
their dispatcher at the same moment don't come back at the same moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from shunter.model.retry import Retry, backoff

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
RANDOM_PART = 0.5

BETWEEN_ROUNDS = Retry(delay=FIRST_SECONDS, max_delay=LONGEST_SECONDS, jitter=RANDOM_PART)


def pause(failures: int, places: int, *, spread: float) -> float:
    """Return how long to wait after so many failures in a row; `spread` is random in [0, 1)."""
    rounds, left = divmod(failures, places)
    if left or not rounds:
        return 0.0
    return backoff(BETWEEN_ROUNDS, rounds, jitter=spread)


class DispatcherRing:
    """The dispatchers, and which of them to ask."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = [place.rstrip("/") for place in places]
        self._at = 0

    def __len__(self) -> int:
        return len(self._places)

    @property
    def current(self) -> str:
        return self._places[self._at]

    def failed(self, place: str) -> None:
        """Move on, unless somebody else has done so already."""
        if place == self.current:
            self._at = (self._at + 1) % len(self._places)
