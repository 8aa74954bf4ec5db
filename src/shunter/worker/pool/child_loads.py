"""Which child of a pool gets a job, and how much room there is, where jobs share children.

One rule: while a job of some type runs in a child, no more jobs than that type's `concurrency`
are in that child. So a job of a type without one is alone in its child, and one that others share
keeps company with any whose `concurrency` allows it. A type that fits in no child and runs in
none has the emptiest child kept free for it: that one gets nothing else until the type has had
its turn. Children are any hashable values. Pure: `now` is always an argument.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

Child = TypeVar("Child", bound=Hashable)

RESERVED_SECONDS = 5.0
"""How long a child is kept free for a type after the last of its jobs was here."""


class _Load:
    """The jobs in one child, by type."""

    __slots__ = ("keys", "types")

    def __init__(self) -> None:
        self.keys: dict[int, str] = {}
        self.types: Counter[str] = Counter()


class ChildLoads(Generic[Child]):
    """The children that take jobs, the jobs in each, and those that wait for room."""

    def __init__(self, concurrency: Mapping[str, int]) -> None:
        self._most = dict(concurrency)
        self._in_idle = min(self._most.values(), default=1)
        self._loads: dict[Child, _Load] = {}
        self._child_of: dict[int, Child] = {}
        self._waiting: dict[str, deque[int]] = {}
        self._reserved: dict[str, tuple[Child, float]] = {}
        self._shut: set[Child] = set()

    # ---- children

    def opened(self, child: Child) -> None:
        """A child takes jobs from now on."""
        self._loads[child] = _Load()

    def closed(self, child: Child) -> list[int]:
        """A child takes no more; return the keys of what is in it, which are forgotten."""
        load = self._loads.pop(child, None)
        self._shut.discard(child)
        for kind, (reserved, _) in list(self._reserved.items()):
            if reserved == child:
                del self._reserved[kind]
        keys = list(load.keys) if load else []
        for key in keys:
            del self._child_of[key]
        return keys

    def shut(self, child: Child) -> None:
        """A child takes no more, and keeps what is in it."""
        if child in self._loads:
            self._shut.add(child)

    def is_shut(self, child: Child) -> bool:
        """True if a child takes no more."""
        return child in self._shut

    def __contains__(self, child: object) -> bool:
        return child in self._loads

    # ---- jobs

    @property
    def assigned(self) -> Mapping[int, Child]:
        """The child of each job that is in one."""
        return self._child_of

    def keys_in(self, child: Child) -> list[int]:
        """Return the keys of the jobs in a child."""
        load = self._loads.get(child)
        return list(load.keys) if load else []

    def wait(self, key: int, kind: str, *, is_first: bool = False) -> None:
        """A job waits for room, behind all others of its type, or before them."""
        line = self._waiting.setdefault(kind, deque())
        (line.appendleft if is_first else line.append)(key)

    def waiting(self) -> list[int]:
        """Return the keys of all that wait, the oldest first."""
        return sorted(key for line in self._waiting.values() for key in line)

    def withdraw(self, keys: Iterable[int]) -> list[int]:
        """Take these off the lines; return those that were in one."""
        wanted = set(keys)
        taken: list[int] = []
        for kind, line in list(self._waiting.items()):
            if not wanted.isdisjoint(line):
                taken += [key for key in line if key in wanted]
                self._waiting[kind] = deque(key for key in line if key not in wanted)
            if not self._waiting[kind]:
                del self._waiting[kind]
        return sorted(taken)

    def ended(self, key: int) -> None:
        """A job is in no child any more."""
        child = self._child_of.pop(key, None)
        if child is None:
            return
        load = self._loads[child]
        kind = load.keys.pop(key)
        load.types[kind] -= 1
        if not load.types[kind]:
            del load.types[kind]

    def place(self, *, now: float) -> list[tuple[int, Child]]:
        """Give children what waits, the oldest first as far as it fits; return who got what."""
        placed: list[tuple[int, Child]] = []
        if self._reserved:
            self._reserved = {
                kind: (child, until)
                for kind, (child, until) in self._reserved.items()
                if now < until
            }
        if not self._waiting:
            return placed
        for kind in sorted(self._waiting, key=lambda kind: self._waiting[kind][0]):
            line = self._waiting[kind]
            while line and (child := self._child_for(kind)) is not None:
                key = line.popleft()
                self._loads[child].keys[key] = kind
                self._loads[child].types[kind] += 1
                self._child_of[key] = child
                placed.append((key, child))
                if self._reserved and self._reserved.get(kind, (None, 0.0))[0] == child:
                    del self._reserved[kind]  # it has had its turn
            if line:
                self._reserve(kind, now)
            else:
                del self._waiting[kind]
        return placed

    # ---- room

    def room(self, kind: str | None = None) -> int:
        """Return how many more jobs may come, of whatever type, or of this one.

        In an empty child that is as many as the least sociable type allows: what comes is not
        known before it is here.
        """
        return sum(self._room_in(child, kind) for child in self._loads)

    @property
    def in_idle(self) -> int:
        """How many jobs of whatever type an empty child has room for."""
        return self._in_idle

    @property
    def is_blocked(self) -> bool:
        """True if a type waits for a child to become empty enough: nothing more should come."""
        return any(kind in self._waiting for kind in self._reserved)

    def _child_for(self, kind: str) -> Child | None:
        best, most = None, 0
        for child, load in self._loads.items():
            if child in self._shut or (self._reserved and self._is_kept_from(kind, child)):
                continue
            room = self._limit(load, kind) - len(load.keys)
            if room > most:
                best, most = child, room
        return best

    def _room_in(self, child: Child, kind: str | None) -> int:
        load = self._loads[child]
        is_kept = any(child == reserved for reserved, _ in self._reserved.values())
        if is_kept or child in self._shut:
            return 0
        limit = self._limit(load, kind) if kind or load.keys else self._in_idle
        return max(0, limit - len(load.keys))

    def _limit(self, load: _Load, kind: str | None) -> int:
        kinds = list(load.types)
        if kind is not None and kinds != [kind]:
            kinds.append(kind)
        if len(kinds) == 1:  # as it is nearly always
            return self._most.get(kinds[0], 1)
        return min((self._most.get(each, 1) for each in kinds), default=0)

    def _reserve(self, kind: str, now: float) -> None:
        """Keep a child free for a type that finds no room, unless it is being served."""
        known = self._reserved.get(kind)
        if known is not None:
            self._reserved[kind] = (known[0], now + RESERVED_SECONDS)
            return
        if not self._loads or any(kind in load.types for load in self._loads.values()):
            return
        taken = {child for child, _ in self._reserved.values()}
        free = [child for child in self._loads if child not in taken | self._shut]
        if free:
            emptiest = min(free, key=lambda child: len(self._loads[child].keys))
            self._reserved[kind] = (emptiest, now + RESERVED_SECONDS)

    def _is_kept_from(self, kind: str, child: Child) -> bool:
        return any(
            other != kind and reserved == child for other, (reserved, _) in self._reserved.items()
        )
