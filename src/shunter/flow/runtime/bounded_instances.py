"""The instances of a keyed stage within a budget of bytes; those not used of late go to a store.

Instances live in two generations. A key that comes is moved into the young one; when that is full,
the states of the old one are stored, and the young one is the old one from then on. So every key
that came within the last generation is in memory, and to find it costs nothing more than a dict.
What can't be stored (by its state or by its key) stays. Where the store is, and what it is, is
the runner's affair. Pure.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.graph.keys import as_key, written_key
from shunter.flow.graph.stages import Stage
from shunter.flow.runtime.operators import Instances, Keyed, handler_of, instructed
from shunter.flow.runtime.sender import Bad
from shunter.flow.runtime.states import saved_state, set_state

FIRST_LIMIT = 1_024
"""A generation has so many instances before their size is first looked at."""

LEAST_LIMIT = 8
SAMPLE = 32
PAGE = 512
BYTES_EACH = 800
"""What an instance takes beside its state: itself, its dict, its handler, its places in dicts."""

TIMES_PACKED = 4
"""A state takes so many times the memory of its packed form."""

_PLAIN = frozenset({int, str, bytes, float, bool, type(None)})

StoredState = tuple[int, bytes, bytes]
"""The place of a key among all, its canonical form, and key and state packed."""

Handler = Callable[[Any], Any]


class StateStore(Protocol):
    """Where states are that are not in memory, by key and by the order in which keys came."""

    def put(self, states: Iterable[StoredState]) -> None:
        """Keep states, in the place of older ones of the same keys."""

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        """Return the place and the state of a key, if it is known."""

    def behind(self, place: int, limit: int) -> list[StoredState]:
        """Return the first states behind a place, in order."""

    def clear(self) -> None:
        """Forget all."""


class BoundedInstances(Instances):
    """`open_store` is called once, where there is no more room. This dict is the young ones."""

    def __init__(self, stage: Stage, open_store: Callable[[], StateStore], most_bytes: int) -> None:
        super().__init__(stage)
        self._open_store, self._most_bytes = open_store, most_bytes
        self._old: dict[Any, Handler] = {}
        self._staying: dict[Any, Handler] = {}
        self._places: dict[Any, int] = {}
        self._count = 0
        self._limit = max(LEAST_LIMIT, min(FIRST_LIMIT, most_bytes // BYTES_EACH))
        self._store: StateStore | None = None

    @property
    def has_stored(self) -> bool:
        return self._store is not None

    def __missing__(self, key: Any) -> Handler:
        handler = self._old.pop(key, None)
        if handler is None:
            handler = self._staying.get(key)
        if handler is None:
            handler = self._made(key)
        if len(self) >= self._limit:
            self._turn()
        self[key] = handler
        return handler

    def in_order(self, *, is_end: bool) -> Iterator[Any]:
        """Return all instances in the order in which their keys came.

        Those from the store are stored again when the next one is asked for, except at the end.
        """
        live = {place: key for key, place in self._places.items()}
        here = ((place, live[place], None) for place in sorted(live))
        stored = (
            (place, None, packed) for place, _, packed in self._spilled_rows() if place not in live
        )
        for place, key, packed in merge(here, stored, key=itemgetter(0)):
            if packed is None:
                yield self.made[key]
                continue
            key, state = _unpacked(packed)
            instance = self.new(key)
            set_state(instance, state)
            yield instance
            if not is_end:
                self._put_back(place, key, instance)

    def forget(self) -> None:
        """Begin anew, with no keys."""
        for each in (self, self.made, self._old, self._staying, self._places):
            each.clear()
        self._count = 0
        if self._store is not None:
            self._store.clear()

    def _made(self, key: Any) -> Handler:
        """Make the instance of a key, with its state if that was stored."""
        instance = self.new(key)
        handler = handler_of(self._stage, instance)
        found = None if self._store is None else self._store.get(written_key(key))
        if found is None:
            place, self._count = self._count, self._count + 1
        else:
            place, packed = found
            set_state(instance, _unpacked(packed)[1])
        self.made[key], self._places[key] = instance, place
        self.is_many = inspect.isgeneratorfunction(handler)
        return handler

    def _turn(self) -> None:
        """Make room for young ones, unless the budget has some."""
        self._limit = self._fitting()
        if len(self) < self._limit:
            return
        states: list[StoredState] = []
        for key, handler in self._old.items():
            packed = None if key in self._staying else self._packed(key, self.made[key])
            if packed is None:
                self._staying[key] = handler
            else:
                states.append((self._places.pop(key), written_key(key), packed))
                del self.made[key]
        if states:
            self._store = self._store or self._open_store()
            self._store.put(states)
        self._old = dict(self)
        self.clear()

    def _fitting(self) -> int:
        """Say how many instances a generation may have, by the states of some of them."""
        sample = [self._packed(key, self.made[key]) for key in islice(self, SAMPLE)]
        sizes = [len(packed) for packed in sample if packed is not None]
        if not sizes:
            return sys.maxsize
        each = TIMES_PACKED * sum(sizes) // len(sizes) + BYTES_EACH
        return max(LEAST_LIMIT, self._most_bytes // each // 2)

    def _packed(self, key: Any, instance: Any) -> bytes | None:
        """Return key and state as bytes, or None if they would not come back the same."""
        if not _is_plain(key):
            return None
        try:
            return msgspec.msgpack.encode([key, saved_state(instance, self._stage)])
        except (FlowError, TypeError, ValueError, OverflowError):
            return None

    def _put_back(self, place: int, key: Any, instance: Any) -> None:
        packed = self._packed(key, instance)
        if packed is not None and self._store is not None:
            self._store.put([(place, written_key(key), packed)])
            return
        self.made[key], self._places[key] = instance, place
        self._staying[key] = handler_of(self._stage, instance)

    def _spilled_rows(self) -> Iterator[StoredState]:
        place = -1
        while self._store is not None and (page := self._store.behind(place, PAGE)):
            yield from page
            place = page[-1][0]


class BoundedKeyed(Keyed):
    """A keyed stage whose states beyond a budget of bytes go to a store."""

    def __init__(
        self, stage: Stage, bad: Bad, open_store: Callable[[], StateStore], most_bytes: int
    ) -> None:
        super().__init__(stage, bad)
        self._bounded = BoundedInstances(stage, open_store, most_bytes)
        self._instances = self._bounded

    def instruct(self, instruction: Instruction) -> list[Any] | Iterator[list[Any]]:
        if self._bounded.has_stored:
            return self._instructed_in_parts(instruction)
        return super().instruct(instruction)

    def _instructed_in_parts(self, instruction: Instruction) -> Iterator[list[Any]]:
        outputs: list[Any] = []
        for instance in self._bounded.in_order(is_end=instruction.name == END_OF_STREAM):
            outputs += instructed([instance], instruction)
            if len(outputs) >= PAGE:
                yield outputs
                outputs = []
        yield outputs


def _is_plain(key: Any) -> bool:
    """True if a key comes back from its packed form as it was."""
    if type(key) is tuple:
        return all(map(_is_plain, key))
    return type(key) in _PLAIN and key == key


def _unpacked(packed: bytes) -> tuple[Any, Any]:
    key, state = msgspec.msgpack.decode(packed)
    return as_key(key), state
