"""Dispatchers on one store, and by how much their clocks differ. Pure.

Each writes now and then what its clock shows. Between two on one host the difference is exact,
since both also write by how much their clock is ahead of the host's own, which never jumps. A
word from another host is as old as it took to get here, so its clock seems to be behind by that
much more than it is: the least difference seen lately is the nearest to the truth, and an error
is always on the side of waiting longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

LOOKS_KEPT = 60
"""Of the last minute, at one look a second."""

KEPT_SECONDS = 86400.0
"""For how long a dispatcher that is gone is remembered: what it started may have to be ended."""


class Presence(Struct, frozen=True, kw_only=True):
    """What a dispatcher's clock showed when it last wrote; `uptime` is its host's own clock."""

    dispatcher_id: str
    clock: float
    host: str
    uptime: float


class HostClock(Struct, frozen=True):
    """The clock that all processes of one host share, until it is started again."""

    id: str
    uptime: Callable[[], float]


class Skews:
    """By how much one's own clock is ahead of those of others, in seconds."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._seen: dict[str, deque[float]] = {}

    def look(self, own: Presence, others: Iterable[Presence], *, now: float) -> dict[str, float]:
        """Compare one's own clock with what others wrote; return what is known by now.

        Of a dispatcher on another host that has not written since it was first seen, nothing is
        known: it may be long gone.
        """
        skews = {}
        for other in others:
            if other.dispatcher_id == own.dispatcher_id:
                continue
            if other.host == own.host:
                skews[other.dispatcher_id] = (own.clock - own.uptime) - (other.clock - other.uptime)
                continue
            last = self._last.get(other.dispatcher_id)
            self._last[other.dispatcher_id] = other.clock
            seen = self._seen.setdefault(other.dispatcher_id, deque(maxlen=LOOKS_KEPT))
            if last is not None and last != other.clock:
                seen.append(now - other.clock)
            if seen:
                skews[other.dispatcher_id] = min(seen)
        for gone in self._last.keys() - skews.keys() - {o.dispatcher_id for o in others}:
            del self._last[gone]
            self._seen.pop(gone, None)
        return skews
