"""What is asked of every source and every sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import msgspec
from hypothesis import strategies as st

from shunter.flow.sinks.port import Sink
from shunter.flow.sources.port import Source

limits = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def carried(value: Any) -> Any:
    """Return a position or checkpoint as it comes back from a disk."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


def rest_of(source: Source, sizes: Sequence[int] = (1000,), *, within: float = 20.0) -> list[Any]:
    """Read a source that is open to its end, in batches of these sizes."""
    found: list[Any] = []
    until = time.monotonic() + within
    for size in cycle(sizes):
        batch = source.read(size)
        if batch is None:
            source.close()
            return found
        assert len(batch) <= size
        assert time.monotonic() < until, f"no end within {within:g} s; {len(found)} events"
        found += batch
    raise AssertionError


def all_of(source: Source, sizes: Sequence[int] = (1000,)) -> list[Any]:
    source.open(None)
    return rest_of(source, sizes)


def read_with_a_stop(make: Callable[[], Source], sizes: Sequence[int], batches: int) -> list[Any]:
    """Read some batches, then go on with another source from the first one's position."""
    first, found = make(), []
    first.open(None)
    for _, size in zip(range(batches), cycle(sizes), strict=False):
        found += first.read(size) or []
    position = carried(first.position())
    first.close()
    second = make()
    second.open(position)
    return found + rest_of(second, sizes)


def write_all(sink: Sink, events: Sequence[Any], size: int = 3) -> None:
    for start in range(0, len(events), size):
        left = list(events[start : start + size])
        while left:
            left = left[sink.write(left) :]


def write_with_a_kill(
    make: Callable[[], Sink], events: Sequence[Any], saved_at: int, killed_at: int
) -> None:
    """Write up to a kill, and again, with another sink, from the checkpoint on."""
    first = make()
    first.open(None)
    write_all(first, events[:saved_at])
    saved = carried(first.checkpoint())
    write_all(first, events[saved_at:killed_at])
    del first
    second = make()
    second.open(saved)
    write_all(second, events[saved_at:])
    second.close()
