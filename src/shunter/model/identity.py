"""What may be a name, and names that sort by time and don't collide.

Pure: time and randomness are arguments.
"""

from __future__ import annotations

import hashlib
import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,127}\Z")

NAME_RULE = "1 to 128 letters, digits or any of _ . : @ / -, beginning with a letter or digit"


def is_name(text: str) -> bool:
    """True if `text` may name a job, a type or a worker."""
    return _NAME.match(text) is not None


HOOK_PREFIX = "final-failure/"
"""What ids and types of jobs that call hooks begin with (`final_failure.py`)."""

RESERVED = f"names that begin with {HOOK_PREFIX} are Shunter's own; choose another"


def is_reserved(name: str) -> bool:
    """True if nobody may submit a job of this id or type, or serve this type."""
    return name.startswith(HOOK_PREFIX)


def hook_name(name: str) -> str:
    """Return the id or type of the job that calls hooks for the job or type of this name."""
    made = HOOK_PREFIX + name
    if is_name(made):
        return made
    return HOOK_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]


def timed_id(now: float, entropy: int) -> str:
    """Return a 26-character id: 48 bits of milliseconds, then 80 bits of `entropy`."""
    return _text(_number(now, entropy))


class RisingIds:
    """Ids of one client, each above the one before it, also within a millisecond.

    Jobs that were made one after the other then lie so in every index: what is written about a
    graph is in few places. Nobody can guess the next one: it is up to 2^60 ahead.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: float, entropy: int) -> str:
        """Return another id, as `timed_id` does."""
        number = _number(now, entropy)
        if number >> 80 <= self._last >> 80:
            number = self._last + 1 + ((entropy & (1 << 80) - 1) >> 20)
        self._last = number
        return _text(number)


def _number(now: float, entropy: int) -> int:
    return (int(now * 1000) & (1 << 48) - 1) << 80 | entropy & (1 << 80) - 1


def _text(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
