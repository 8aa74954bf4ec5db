"""How long something that others write has stayed as it is, by the clock of whoever looks. Pure.

The clocks of two hosts may differ by any amount, so a time that another host wrote is never
compared with one's own: it is watched. A value that has not changed for ten seconds of one's own
time is ten seconds old at least, whatever it says.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Watch:
    """Remembers for each key the last value, and when it was first seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def unchanged_for(self, key: str, value: Hashable, *, now: float) -> float:
        """Look at a value, and return for how long it has been seen unchanged."""
        known, since = self._seen.get(key, (None, now))
        if known != value or since > now:
            since = now
        self._seen[key] = (value, since)
        return now - since

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget all that is not among these any more."""
        for key in self._seen.keys() - keys:
            del self._seen[key]
