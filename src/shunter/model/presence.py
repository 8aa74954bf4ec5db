"""Dispatchers on one store, and by how much their clocks differ. Pure.

Each writes now and then what its clock shows. Between two on one host the difference is exact,
since both also write by how much their clock is ahead of the host's own, which never jumps. A
word from another host is as old as it took to get here, so its clock seems to be behind by that
much more than it is: the least difference seen lately is the nearest to the truth, and an error
is always on the side of waiting longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from shunter.model.watch import Watch

LOOKS_KEPT = 60
"""Of the last minute, at one look a second."""

ALIVE_SECONDS = 30.0
"""A dispatcher that has not written for so long is not there."""

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


class Company(Struct, frozen=True):
    """Other dispatchers: by how much our clock is ahead of theirs, and who is alive."""

    skews: dict[str, float] = {}
    alive: frozenset[str] = frozenset()
    most_ahead: float | None = None
    """By how much our clock may be ahead of any; None while one of them is unknown."""


class Skews:
    """Compares one's own clock with those of others."""

    def __init__(self) -> None:
        self._clocks = Watch()
        self._seen: dict[str, deque[float]] = {}

    def look(self, own: Presence, others: Sequence[Presence], *, now: float) -> Company:
        """Compare one's own clock with what others wrote; return what is known by now.

        Of a dispatcher on another host that has not written since it was first seen, nothing is
        known: it may be long gone.
        """
        skews, alive = {}, set()
        for other in others:
            name = other.dispatcher_id
            if name == own.dispatcher_id:
                continue
            silent_for = self._clocks.unchanged_for(name, other.clock, now=now)
            if silent_for < ALIVE_SECONDS:
                alive.add(name)
            if other.host == own.host:
                skews[name] = (own.clock - own.uptime) - (other.clock - other.uptime)
                continue
            is_first = name not in self._seen
            seen = self._seen.setdefault(name, deque(maxlen=LOOKS_KEPT))
            if silent_for == 0.0 and not is_first:
                seen.append(now - other.clock)
            if seen:
                skews[name] = min(seen)
        here = {other.dispatcher_id for other in others}
        self._clocks.keep_only(here)
        self._seen = {name: seen for name, seen in self._seen.items() if name in here}
        is_known = skews.keys() >= here - {own.dispatcher_id}
        most_ahead = max(0.0, *skews.values(), 0.0) if is_known else None
        return Company(skews, frozenset(alive), most_ahead)
