"""Ids for what a dispatcher makes: from the clock, and randomness of the system."""

from __future__ import annotations

from shunter.model.identity import timed_id
from shunter.net.environment import REAL, Environment

RANDOM_BYTES = 10
NUMBERS_AT_ONCE = 400


class Ids:
    """Makes ids that nobody can foresee, in any thread.

    The system is asked for the randomness of many at once: each time it is asked, the
    interpreter lock may go back and forth between the loop and the store's threads.
    """

    def __init__(self, environment: Environment = REAL) -> None:
        self._environment = environment
        self._numbers: list[int] = []

    def new(self) -> str:
        try:
            number = self._numbers.pop()  # no two threads get the same
        except IndexError:
            fresh = self._random_numbers()
            number = fresh.pop()
            self._numbers = fresh
        return timed_id(self._environment.wall(), number)

    def _random_numbers(self) -> list[int]:
        text = self._environment.token_bytes(RANDOM_BYTES * NUMBERS_AT_ONCE)
        starts = range(0, len(text), RANDOM_BYTES)
        return [int.from_bytes(text[start : start + RANDOM_BYTES]) for start in starts]
