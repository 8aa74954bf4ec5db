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
    """Seats of one set of types, with a heap that finds the freest.

    Room changes far more often than anybody asks for the freest, so entries are pushed when it is
    asked for. One is stale when the seat's room has changed since.
    """

    def __init__(self) -> None:
        self.seats: dict[str, WorkerCapacity] = {}
        self.free = 0
        self._heap: list[tuple[int, int, str]] = []
        self._turn = 0
        self._moved: dict[str, None] = {}  # seats whose room has changed, the latest last

    def moved(self, worker_id: str) -> None:
        """Note that a seat's room has changed."""
        self._moved.pop(worker_id, None)
        self._moved[worker_id] = None

    def freest(self) -> WorkerCapacity | None:
        if self._moved:
            self._push_moved()
        while self._heap:
            free, _, worker_id = self._heap[0]
            seat = self.seats.get(worker_id)
            if seat is not None and seat.free == -free:
                return seat
            heapq.heappop(self._heap)
        return None

    def _push_moved(self) -> None:
        for worker_id in self._moved:
            seat = self.seats.get(worker_id)
            if seat is not None and seat.free:
                self._turn += 1
                heapq.heappush(self._heap, (-seat.free, self._turn, worker_id))
        self._moved.clear()
        if len(self._heap) > 64 + 8 * len(self.seats):
            self._rebuild()

    def _rebuild(self) -> None:
        newest = {worker_id: (free, turn) for free, turn, worker_id in sorted(self._heap)}
        self._heap = [
            (-seat.free, newest.get(worker_id, (0, self._turn))[1], worker_id)
            for worker_id, seat in self.seats.items()
            if seat.free
        ]
        heapq.heapify(self._heap)


class Roster:
    """The live workers of one dispatcher.

    `first_place` is where it begins to look for places on shared workers: dispatchers that begin
    elsewhere meet less often.
    """

    def __init__(self, first_place: int = 0) -> None:
        self._seats: dict[str, WorkerCapacity] = {}
        self._groups: dict[GroupKey, _Group] = {}
        self._handlers: dict[str, Handler | None] = {}  # by type, as far as it was asked for
        self._first_place = first_place

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._seats

    def __len__(self) -> int:
        return len(self._seats)

    def seat(self, worker_id: str) -> WorkerCapacity | None:
        return self._seats.get(worker_id)

    def enlist(
        self,
        worker_id: str,
        handlers: tuple[Handler, ...],
        window: int,
        *,
        is_shared: bool = False,
    ) -> WorkerCapacity:
        """Give a worker a seat, or a new one in place of its old; what it held it still holds."""
        before = self._seats.get(worker_id)
        held = self.remove(worker_id)
        seat = WorkerCapacity(worker_id, handlers, window, is_shared=is_shared)
        seat.held = held
        if before is not None:
            seat.numbers, seat.blocked = before.numbers, before.blocked
            seat.foreign = before.foreign
        self._seats[worker_id] = seat
        group = self._groups.setdefault(seat.kind, _Group())
        group.seats[worker_id] = seat
        self._handlers.clear()
        self._count(seat)
        return seat

    def remove(self, worker_id: str) -> set[str]:
        """Take a worker's seat away and return what it held."""
        seat = self._seats.pop(worker_id, None)
        if seat is None:
            return set()
        self._handlers.clear()
        group = self._groups[seat.kind]
        group.free -= seat.free
        del group.seats[worker_id]
        if not group.seats:
            del self._groups[seat.kind]
        return seat.held

    def adjust(
        self, worker_id: str, *, window: int | None = None, is_open: bool | None = None
    ) -> None:
        """Change how much a worker may be given, or whether it may be given anything."""
        seat = self._seats.get(worker_id)
        if seat is None:
            return
        window = seat.window if window is None else window
        is_open = seat.is_open if is_open is None else is_open
        if (window, is_open) != (seat.window, seat.is_open):
            seat.window, seat.is_open = window, is_open
            self._count(seat)

    def drain(self, worker_id: str, *, is_drained: bool) -> bool:
        """Give a worker nothing new, or jobs again; return whether that is a change."""
        seat = self._seats.get(worker_id)
        if seat is None or seat.is_drained is is_drained:
            return False
        seat.is_drained = is_drained
        self._count(seat)
        return True

    def hold(self, worker_id: str, job_id: str, *, is_foreign: bool = False) -> None:
        """Note that the worker has this job; a foreign one takes nothing from its window."""
        seat = self._seats.get(worker_id)
        if seat is None or (job_id in seat.held and (job_id in seat.foreign) is is_foreign):
            return
        seat.held.add(job_id)
        (seat.foreign.add if is_foreign else seat.foreign.discard)(job_id)
        self._count(seat)

    def drop(self, worker_id: str, job_id: str) -> None:
        """Note that the worker no longer has this job."""
        seat = self._seats.get(worker_id)
        if seat is None or job_id not in seat.held:
            return
        seat.held.discard(job_id)
        seat.foreign.discard(job_id)
        seat.numbers.pop(job_id, None)
        self._count(seat)

    def freest(self, job_type: str) -> WorkerCapacity | None:
        """Return the freest worker that does this type, or None where no place is free."""
        best: WorkerCapacity | None = None
        for kind, group in self._groups.items():
            if job_type in kind.types:
                seat = group.freest()
                if seat is not None and (best is None or seat.free > best.free):
                    best = seat
        return best

    def place(self, job_type: str, job_id: str) -> str | None:
        """Seat the job with the freest worker that does its type, or return None."""
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
        return self._seats[worker_id].numbers[job_id]

    def refuse(self, worker_id: str, job_id: str) -> None:
        """Note that another dispatcher had taken the place before us."""
        if seat := self._seats.get(worker_id):
            seat.held.discard(job_id)
            seat.foreign.discard(job_id)
            if (number := seat.numbers.pop(job_id, None)) is not None:
                seat.blocked.add(number)
            self._count(seat)

    def block(self, worker_id: str, places: Iterable[int]) -> None:
        """Note which places of a shared worker are taken, by whomever."""
        if seat := self._seats.get(worker_id):
            seat.blocked = set(places).difference(seat.numbers.values())
            self._count(seat)

    def _free_number(self, seat: WorkerCapacity) -> int:
        taken = seat.taken
        numbers = ((self._first_place + step) % seat.window for step in range(seat.window))
        return next(number for number in numbers if number not in taken)

    def reserve(self, types: Types, count: int) -> list[str]:
        """Set places aside for jobs yet to be claimed, each with the freest worker then.

        Only with workers of our own: those of shared ones can't be promised.
        """
        group = self._groups.get(GroupKey(types, is_shared=False))
        reserved: list[str] = []
        while group is not None and len(reserved) < count:
            seat = group.freest()
            if seat is None:
                break
            places = 1 if len(group.seats) > 1 else min(seat.free, count - len(reserved))
            seat.reserved += places
            self._count(seat)
            reserved += [seat.worker_id] * places
        return reserved

    def release(self, worker_ids: Iterable[str]) -> None:
        """Give back places that were set aside."""
        for worker_id, count in Counter(worker_ids).items():
            if seat := self._seats.get(worker_id):
                seat.reserved = max(0, seat.reserved - count)
                self._count(seat)

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
                seat = next(iter(group.seats.values()))
                return next(h for h in seat.handlers if h.type == job_type)
        return None

    def declaring(self, job_type: str) -> tuple[str, Handler] | None:
        """Return a worker of our own that does this type, and what it has declared for it."""
        for kind, group in self._groups.items():
            if job_type in kind.types and not kind.is_shared:
                seat = next(iter(group.seats.values()))
                return seat.worker_id, next(h for h in seat.handlers if h.type == job_type)
        return None

    def held(self, worker_id: str) -> Set[str]:
        seat = self._seats.get(worker_id)
        return seat.held if seat else frozenset()

    def _count(self, seat: WorkerCapacity) -> None:
        """Count a seat's room anew, after something about it has changed."""
        free = seat.counted()
        if free != seat.free:
            group = self._groups[seat.kind]
            group.free += free - seat.free
            group.moved(seat.worker_id)
            seat.free = free
