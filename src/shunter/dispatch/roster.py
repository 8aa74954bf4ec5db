"""Which workers are there, how many more jobs each may be given, and who gets the next one.

Pure, and only a hint: what the roster believes is never truer than the store. Workers that do
the same types form a group, so that finding the one with the most room costs the same for two
workers and for a thousand.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Set
from typing import NamedTuple

from msgspec import Struct

from shunter.model.final_failure import with_hooks
from shunter.model.worker import Handler

Types = frozenset[str]

MOST_REMEMBERED = 1000
"""Of so many types it is remembered what workers have declared; clients may name any number."""


class Opening(Struct, frozen=True):
    """Room for `free` more jobs of these types; `is_shared` where others may be taking it."""

    types: Types
    free: int
    is_shared: bool = False


class GroupKey(NamedTuple):
    """What the workers of a group have in common."""

    types: Types
    is_shared: bool


class WorkerCapacity:
    """One worker's place in the roster."""

    __slots__ = (
        "blocked",
        "foreign",
        "free",
        "handlers",
        "held",
        "is_drained",
        "is_open",
        "is_shared",
        "kind",
        "numbers",
        "reserved",
        "types",
        "window",
        "worker_id",
    )

    def __init__(
        self, worker_id: str, handlers: tuple[Handler, ...], window: int, *, is_shared: bool
    ) -> None:
        self.worker_id = worker_id
        self.is_shared = is_shared
        self.numbers: dict[str, int] = {}  # the places of a shared worker that we took, by job
        self.blocked: set[int] = set()  # those that others took
        self.handlers = with_hooks(handlers)
        self.types: Types = frozenset(handler.type for handler in self.handlers)
        self.kind = GroupKey(self.types, is_shared)
        self.window = window
        self.held: set[str] = set()
        self.foreign: set[str] = set()  # those of the held that don't count against the window
        self.reserved = 0
        self.is_open = True
        self.is_drained = False
        self.free = 0  # as the roster counted it last

    def counted(self) -> int:
        """Return how many more jobs it may be given."""
        if not self.is_open or self.is_drained:
            return 0
        room = self.window - len(self.held) + len(self.foreign) - self.reserved
        if self.is_shared:
            room = min(room, self.window - len(self.taken))
        return max(0, room)

    @property
    def taken(self) -> Set[int]:
        return self.blocked.union(self.numbers.values())


class _Group:
    """Workers of one set of types, with a heap that finds the freest.

    Room changes far more often than anybody asks for the freest, so entries are pushed when it is
    asked for. One is stale when the capacity's room has changed since.
    """

    def __init__(self) -> None:
        self.capacities: dict[str, WorkerCapacity] = {}
        self.free = 0
        self._heap: list[tuple[int, int, str]] = []
        self._turn = 0
        self._moved: dict[str, None] = {}  # workers whose room has changed, the latest last

    def moved(self, worker_id: str) -> None:
        """Note that the room of a worker has changed."""
        self._moved.pop(worker_id, None)
        self._moved[worker_id] = None

    def freest(self) -> WorkerCapacity | None:
        if self._moved:
            self._push_moved()
        while self._heap:
            free, _, worker_id = self._heap[0]
            capacity = self.capacities.get(worker_id)
            if capacity is not None and capacity.free == -free:
                return capacity
            heapq.heappop(self._heap)
        return None

    def _push_moved(self) -> None:
        for worker_id in self._moved:
            capacity = self.capacities.get(worker_id)
            if capacity is not None and capacity.free:
                self._turn += 1
                heapq.heappush(self._heap, (-capacity.free, self._turn, worker_id))
        self._moved.clear()
        if len(self._heap) > 64 + 8 * len(self.capacities):
            self._rebuild()

    def _rebuild(self) -> None:
        newest = {worker_id: (free, turn) for free, turn, worker_id in sorted(self._heap)}
        self._heap = [
            (-capacity.free, newest.get(worker_id, (0, self._turn))[1], worker_id)
            for worker_id, capacity in self.capacities.items()
            if capacity.free
        ]
        heapq.heapify(self._heap)


class Roster:
    """The live workers of one dispatcher.

    `first_place` is where it begins to look for places on shared workers: dispatchers that begin
    elsewhere meet less often.
    """

    def __init__(self, first_place: int = 0) -> None:
        self._capacities: dict[str, WorkerCapacity] = {}
        self._groups: dict[GroupKey, _Group] = {}
        self._handlers: dict[str, Handler | None] = {}  # by type, as far as it was asked for
        self._first_place = first_place

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._capacities

    def __len__(self) -> int:
        return len(self._capacities)

    def capacity_of(self, worker_id: str) -> WorkerCapacity | None:
        return self._capacities.get(worker_id)

    def enlist(
        self,
        worker_id: str,
        handlers: tuple[Handler, ...],
        window: int,
        *,
        is_shared: bool = False,
    ) -> WorkerCapacity:
        """Let a worker in, or in anew; what it held it still holds."""
        before = self._capacities.get(worker_id)
        held = self.remove(worker_id)
        capacity = WorkerCapacity(worker_id, handlers, window, is_shared=is_shared)
        capacity.held = held
        if before is not None:
            capacity.numbers, capacity.blocked = before.numbers, before.blocked
            capacity.foreign = before.foreign
        self._capacities[worker_id] = capacity
        group = self._groups.setdefault(capacity.kind, _Group())
        group.capacities[worker_id] = capacity
        self._handlers.clear()
        self._count(capacity)
        return capacity

    def remove(self, worker_id: str) -> set[str]:
        """Let a worker go and return what it held."""
        capacity = self._capacities.pop(worker_id, None)
        if capacity is None:
            return set()
        self._handlers.clear()
        group = self._groups[capacity.kind]
        group.free -= capacity.free
        del group.capacities[worker_id]
        if not group.capacities:
            del self._groups[capacity.kind]
        return capacity.held

    def adjust(
        self, worker_id: str, *, window: int | None = None, is_open: bool | None = None
    ) -> None:
        """Change how much a worker may be given, or whether it may be given anything."""
        capacity = self._capacities.get(worker_id)
        if capacity is None:
            return
        window = capacity.window if window is None else window
        is_open = capacity.is_open if is_open is None else is_open
        if (window, is_open) != (capacity.window, capacity.is_open):
            capacity.window, capacity.is_open = window, is_open
            self._count(capacity)

    def drain(self, worker_id: str, *, is_drained: bool) -> bool:
        """Give a worker nothing new, or jobs again; return whether that is a change."""
        capacity = self._capacities.get(worker_id)
        if capacity is None or capacity.is_drained is is_drained:
            return False
        capacity.is_drained = is_drained
        self._count(capacity)
        return True

    def hold(self, worker_id: str, job_id: str, *, is_foreign: bool = False) -> None:
        """Note that the worker has this job; a foreign one takes nothing from its window."""
        capacity = self._capacities.get(worker_id)
        if capacity is None or (
            job_id in capacity.held and (job_id in capacity.foreign) is is_foreign
        ):
            return
        capacity.held.add(job_id)
        (capacity.foreign.add if is_foreign else capacity.foreign.discard)(job_id)
        self._count(capacity)

    def drop(self, worker_id: str, job_id: str) -> None:
        """Note that the worker no longer has this job."""
        capacity = self._capacities.get(worker_id)
        if capacity is None or job_id not in capacity.held:
            return
        capacity.held.discard(job_id)
        capacity.foreign.discard(job_id)
        capacity.numbers.pop(job_id, None)
        self._count(capacity)

    def freest(self, job_type: str) -> WorkerCapacity | None:
        """Return the freest worker that does this type, or None where no place is free."""
        best: WorkerCapacity | None = None
        for kind, group in self._groups.items():
            if job_type in kind.types:
                capacity = group.freest()
                if capacity is not None and (best is None or capacity.free > best.free):
                    best = capacity
        return best

    def place(self, job_type: str, job_id: str) -> str | None:
        """Place the job with the freest worker that does its type, or return None."""
        best = self.freest(job_type)
        if best is None:
            return None
        best.held.add(job_id)
        best.foreign.discard(job_id)
        if best.is_shared:
            best.numbers[job_id] = self._free_number(best)
        self._count(best)
        return best.worker_id

    def number(self, worker_id: str, job_id: str) -> int:
        """Return which place of a shared worker the job was given."""
        return self._capacities[worker_id].numbers[job_id]

    def refuse(self, worker_id: str, job_id: str) -> None:
        """Note that another dispatcher had taken the place before us."""
        if capacity := self._capacities.get(worker_id):
            capacity.held.discard(job_id)
            capacity.foreign.discard(job_id)
            if (number := capacity.numbers.pop(job_id, None)) is not None:
                capacity.blocked.add(number)
            self._count(capacity)

    def block(self, worker_id: str, places: Iterable[int]) -> None:
        """Note which places of a shared worker are taken, by whomever."""
        if capacity := self._capacities.get(worker_id):
            capacity.blocked = set(places).difference(capacity.numbers.values())
            self._count(capacity)

    def _free_number(self, capacity: WorkerCapacity) -> int:
        taken = capacity.taken
        numbers = ((self._first_place + step) % capacity.window for step in range(capacity.window))
        return next(number for number in numbers if number not in taken)

    def reserve(self, types: Types, count: int) -> list[str]:
        """Set places aside for jobs yet to be claimed, each with the freest worker then.

        Only with workers of our own: those of shared ones can't be promised.
        """
        group = self._groups.get(GroupKey(types, is_shared=False))
        reserved: list[str] = []
        while group is not None and len(reserved) < count:
            capacity = group.freest()
            if capacity is None:
                break
            places = 1 if len(group.capacities) > 1 else min(capacity.free, count - len(reserved))
            capacity.reserved += places
            self._count(capacity)
            reserved += [capacity.worker_id] * places
        return reserved

    def release(self, worker_ids: Iterable[str]) -> None:
        """Give back places that were set aside."""
        for worker_id, count in Counter(worker_ids).items():
            if capacity := self._capacities.get(worker_id):
                capacity.reserved = max(0, capacity.reserved - count)
                self._count(capacity)

    def openings(self) -> list[Opening]:
        """Return where there is room, one entry for each group of workers."""
        return [
            Opening(kind.types, group.free, kind.is_shared)
            for kind, group in self._groups.items()
            if group.free > 0
        ]

    def types(self) -> set[str]:
        """Return all types that some worker here does."""
        return set().union(*(kind.types for kind in self._groups))

    def handler(self, job_type: str) -> Handler | None:
        """Return what some worker has declared for this type."""
        if job_type not in self._handlers:
            if len(self._handlers) >= MOST_REMEMBERED:
                self._handlers.clear()
            self._handlers[job_type] = self._declared(job_type)
        return self._handlers[job_type]

    def _declared(self, job_type: str) -> Handler | None:
        for kind, group in self._groups.items():
            if job_type in kind.types:
                capacity = next(iter(group.capacities.values()))
                return next(h for h in capacity.handlers if h.type == job_type)
        return None

    def declaring(self, job_type: str) -> tuple[str, Handler] | None:
        """Return a worker of our own that does this type, and what it has declared for it."""
        for kind, group in self._groups.items():
            if job_type in kind.types and not kind.is_shared:
                capacity = next(iter(group.capacities.values()))
                return capacity.worker_id, next(h for h in capacity.handlers if h.type == job_type)
        return None

    def held(self, worker_id: str) -> Set[str]:
        capacity = self._capacities.get(worker_id)
        return capacity.held if capacity else frozenset()

    def _count(self, capacity: WorkerCapacity) -> None:
        """Count the room of a worker anew, after something about it has changed."""
        free = capacity.counted()
        if free != capacity.free:
            group = self._groups[capacity.kind]
            group.free += free - capacity.free
            group.moved(capacity.worker_id)
            capacity.free = free
