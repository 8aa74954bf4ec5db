"""Results for plain clients that are away for a moment. Pure.

A plain client can't ask for its result again, so one that broke off and will come back under
the same name finds it waiting: for a while, and within bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

KEPT_SECONDS = 60.0
MAX_KEPT = 10_000
MAX_KEPT_BYTES = 64 * 1024 * 1024


class _Kept(Struct, frozen=True):
    message: Sequence[bytes]
    until: float
    size: int


class UndeliveredResults:
    """Messages that could not be sent, in the order in which they were due."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, message: Sequence[bytes], *, now: float) -> bool:
        """Keep a message for later; False where there is no room."""
        size = sum(map(len, message))
        if len(self._kept) >= MAX_KEPT or self._size + size > MAX_KEPT_BYTES:
            return False
        self._kept.append(_Kept(message, now + KEPT_SECONDS, size))
        self._size += size
        return True

    def try_again(self, send: Callable[[Sequence[bytes]], bool], *, now: float) -> int:
        """Send what can be sent, drop what is too old; return how many were dropped."""
        dropped = 0
        for _ in range(len(self._kept)):
            kept = self._kept.popleft()
            if send(kept.message):
                self._size -= kept.size
            elif now >= kept.until:
                self._size -= kept.size
                dropped += 1
            else:
                self._kept.append(kept)
        return dropped
