"""Which schedules a dispatcher must look at, and when: names and times, nothing else.

There may be thousands of schedules and nothing to do about any of them for hours, so what is kept
is small, and the earliest is found without looking at the others. It is a hint: before anything
is decided, a schedule is read from the store. Pure.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator

from msgspec import Struct

ELSEWHERE_SECONDS = 0.5
"""How long a tick is left to the dispatcher that is first in line for it."""


class TimetableEntry(Struct):
    """What is known of one schedule. `look_at` is None where nothing comes by itself.

    One that `is_postponed` was left to another dispatcher for a moment.
    """

    revision: int
    look_at: float | None
    is_declared: bool = False
    is_postponed: bool = False


class Timetable:
    """The schedules of the store, by the names of their records."""

    def __init__(self) -> None:
        self._entries: dict[str, TimetableEntry] = {}
        self._heap: list[tuple[float, str]] = []
        self._in_hand: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, name: str) -> TimetableEntry | None:
        """Return what is known of a schedule."""
        return self._entries.get(name)

    @property
    def next_look(self) -> float | None:
        """When the earliest look is due; None if nothing comes by itself."""
        self._drop_outdated()
        return self._heap[0][0] if self._heap else None

    def enter(self, name: str, entry: TimetableEntry) -> None:
        """Take a schedule as it is now; it is no longer in hand."""
        known, was_in_hand = self._entries.get(name), name in self._in_hand
        self._in_hand.discard(name)
        self._entries[name] = entry
        is_in_line = known is not None and known.look_at == entry.look_at and not was_in_hand
        if entry.look_at is not None and not is_in_line:
            heapq.heappush(self._heap, (entry.look_at, name))

    def look_again(self, name: str, at: float, *, is_postponed: bool = False) -> None:
        """Look at a schedule then, whatever is known of it."""
        if (known := self._entries.get(name)) is not None:
            entry = TimetableEntry(known.revision, at, known.is_declared, is_postponed)
            self.enter(name, entry)

    def forget(self, name: str) -> None:
        self._in_hand.discard(name)
        self._entries.pop(name, None)

    def take_due(self, *, now: float, limit: int) -> list[str]:
        """Return schedules that are due; they are in hand until they are entered again."""
        taken: list[str] = []
        while len(taken) < limit:
            self._drop_outdated()
            if not self._heap or self._heap[0][0] > now:
                break
            _, name = heapq.heappop(self._heap)
            self._in_hand.add(name)
            taken.append(name)
        return taken

    def is_in_hand(self, name: str) -> bool:
        """True if a schedule is being decided on."""
        return name in self._in_hand

    def _drop_outdated(self) -> None:
        """Drop what stands first and is no longer so, or is in hand."""
        while self._heap:
            at, name = self._heap[0]
            entry = self._entries.get(name)
            if entry is not None and entry.look_at == at and name not in self._in_hand:
                return
            heapq.heappop(self._heap)


def is_first_in_line(name: str, own_id: str, others: Collection[str]) -> bool:
    """True if of all dispatchers this one is to look at a schedule before the others do.

    It only saves work: any of them may, and does if the tick is still there after a while.
    """
    mine = _rank(name, own_id)
    return all(mine >= _rank(name, other) for other in others)


def _rank(name: str, dispatcher_id: str) -> bytes:
    return hashlib.blake2b(f"{name}\n{dispatcher_id}".encode(), digest_size=8).digest()
