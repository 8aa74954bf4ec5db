"""Which workers are there, how many more jobs each may be given, and who gets the next one.

Pure, and only a hint: what the roster believes is never truer than the store. Workers that do
the same types form a group, so that finding the one with the most room costs the same for two
workers and for a thousand.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Set

from msgspec import Struct

from shunter.model.worker import Handler

Types = frozenset[str]


class Opening(Struct, frozen=True):
    """Room for `free` more jobs of these types."""

    types: Types
    free: int


class Seat:
    """One worker's place in the roster."""

    __slots__ = ("handlers", "held", "is_open", "reserved", "types", "window", "worker_id")

    def __init__(self, worker_id: str, handlers: tuple[Handler, ...], window: int) -> None:
        self.worker_id = worker_id
        self.handlers = handlers
        self.types: Types = frozenset(handler.type for handler in handlers)
        self.window = window
        self.held: set[str] = set()
        self.reserved = 0
        self.is_open = True

    @property
    def free(self) -> int:
        room = self.window - len(self.held) - self.reserved
        return max(0, room) if self.is_open else 0


class _Group:
    """Seats of one set of types, with a heap that finds the freest.

    An entry is stale when the seat's room has changed since; a fresh one was pushed then.
    """

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self.free = 0
        self._heap: list[tuple[int, int, str]] = []
        self._turn = 0

    def push(self, seat: Seat) -> None:
        if free := seat.free:
            self._turn += 1
            heapq.heappush(self._heap, (-free, self._turn, seat.worker_id))
            if len(self._heap) > 64 + 8 * len(self.seats):
                self._rebuild()

    def freest(self) -> Seat | None:
        while self._heap:
            free, _, worker_id = self._heap[0]
            seat = self.seats.get(worker_id)
            if seat is not None and seat.free == -free:
                return seat
            heapq.heappop(self._heap)
        return None

    def _rebuild(self) -> None:
        newest = {worker_id: (free, turn) for free, turn, worker_id in sorted(self._heap)}
        self._heap = [
            (-seat.free, newest.get(worker_id, (0, self._turn))[1], worker_id)
            for worker_id, seat in self.seats.items()
            if seat.free
        ]
        heapq.heapify(self._heap)


class Roster:
    """The live workers of one dispatcher."""

    def __init__(self) -> None:
        self._seats: dict[str, Seat] = {}
        self._groups: dict[Types, _Group] = {}

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._seats

    def __len__(self) -> int:
        return len(self._seats)

    def seat(self, worker_id: str) -> Seat | None:
        return self._seats.get(worker_id)

    def enlist(self, worker_id: str, handlers: tuple[Handler, ...], window: int) -> Seat:
        """Give a worker a seat, or a new one in place of its old; what it held it still holds."""
        held = self.remove(worker_id)
        seat = Seat(worker_id, handlers, window)
        seat.held = held
        self._seats[worker_id] = seat
        group = self._groups.setdefault(seat.types, _Group())
        group.seats[worker_id] = seat
        group.free += seat.free
        group.push(seat)
        return seat

    def remove(self, worker_id: str) -> set[str]:
        """Take a worker's seat away and return what it held."""
        seat = self._seats.pop(worker_id, None)
        if seat is None:
            return set()
        group = self._groups[seat.types]
        group.free -= seat.free
        del group.seats[worker_id]
        if not group.seats:
            del self._groups[seat.types]
        return seat.held

    def adjust(
        self, worker_id: str, *, window: int | None = None, is_open: bool | None = None
    ) -> None:
        """Change how much a worker may be given, or whether it may be given anything."""
        if seat := self._seats.get(worker_id):
            before = seat.free
            if window is not None:
                seat.window = window
            if is_open is not None:
                seat.is_open = is_open
            self._changed(seat, before)

    def hold(self, worker_id: str, job_id: str) -> None:
        """Note that the worker has this job."""
        if seat := self._seats.get(worker_id):
            before = seat.free
            seat.held.add(job_id)
            self._changed(seat, before)

    def drop(self, worker_id: str, job_id: str) -> None:
        """Note that the worker no longer has this job."""
        if seat := self._seats.get(worker_id):
            before = seat.free
            seat.held.discard(job_id)
            self._changed(seat, before)

    def place(self, job_type: str, job_id: str) -> str | None:
        """Seat the job with the freest worker that does its type, or return None."""
        best: Seat | None = None
        for types, group in self._groups.items():
            if job_type in types:
                seat = group.freest()
                if seat is not None and (best is None or seat.free > best.free):
                    best = seat
        if best is None:
            return None
        self.hold(best.worker_id, job_id)
        return best.worker_id

    def reserve(self, types: Types, count: int) -> list[str]:
        """Set places aside for jobs yet to be claimed, each with the freest worker then."""
        group = self._groups.get(types)
        reserved: list[str] = []
        while group is not None and len(reserved) < count:
            seat = group.freest()
            if seat is None:
                break
            before = seat.free
            seat.reserved += 1
            self._changed(seat, before)
            reserved.append(seat.worker_id)
        return reserved

    def release(self, worker_ids: Iterable[str]) -> None:
        """Give back places that were set aside."""
        for worker_id, count in Counter(worker_ids).items():
            if seat := self._seats.get(worker_id):
                before = seat.free
                seat.reserved = max(0, seat.reserved - count)
                self._changed(seat, before)

    def openings(self) -> list[Opening]:
        """Return where there is room, one entry for each group of workers."""
        return [
            Opening(types, group.free) for types, group in self._groups.items() if group.free > 0
        ]

    def types(self) -> set[str]:
        """Return all types that some worker here does."""
        return set().union(*self._groups)

    def handler(self, job_type: str) -> Handler | None:
        """Return what some worker has declared for this type."""
        for types, group in self._groups.items():
            if job_type in types:
                seat = next(iter(group.seats.values()))
                return next(h for h in seat.handlers if h.type == job_type)
        return None

    def held(self, worker_id: str) -> Set[str]:
        seat = self._seats.get(worker_id)
        return seat.held if seat else frozenset()

    def _changed(self, seat: Seat, before: int) -> None:
        if seat.free != before:
            group = self._groups[seat.types]
            group.free += seat.free - before
            group.push(seat)
