"""Names that sort by time and don't collide. Pure: time and randomness are arguments."""

from __future__ import annotations

import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,127}\Z")

NAME_RULE = "1 to 128 letters, digits or any of _ . : @ / -, beginning with a letter or digit"


def is_name(text: str) -> bool:
    """True if `text` may name a job, a type or a worker."""
    return _NAME.match(text) is not None


def timed_id(now: float, entropy: int) -> str:
    """Return a 26-character id: 48 bits of milliseconds, then 80 bits of `entropy`."""
    number = (int(now * 1000) & (1 << 48) - 1) << 80 | entropy & (1 << 80) - 1
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
