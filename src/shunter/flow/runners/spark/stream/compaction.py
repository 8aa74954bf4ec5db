"""Which files of states become one, and what is in it. Pure.

Files of about the same size are merged when there are enough of them, into one that is larger: so
a state is written again only as often as files grow by a factor, and few files are ever looked
into. The newest state of a key is the one that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from shunter.flow.graph.keys import written_key
from shunter.flow.runners.spark.stream.segments import (
    DroppedPart,
    Hashed,
    HashRange,
    SegmentView,
    key_in,
)

FILES = 8
"""So many files of one size become one."""

SMALL = 1 << 16
"""Files with fewer bytes are all taken for small ones."""

TableKey = tuple[str, bytes]
"""A stage, and the canonical form of a part."""


def to_merge(added: int, sizes: Sequence[int]) -> int:
    """Return how many of the files, the newest first, go into the next one, of `added` bytes."""
    count, size = 0, added
    while True:
        behind = count
        while behind < len(sizes) and _order(sizes[behind]) <= _order(size):
            behind += 1
        if behind - count < FILES - 1:
            return count
        size += sum(sizes[count:behind])
        count = behind


def _order(size: int) -> int:
    order = 0
    while size >= SMALL * FILES**order:
        order += 1
    return order


def live_records(
    views: Sequence[SegmentView],
    table: TableKey,
    *,
    changes: Iterable[Hashed] = (),
    hidden: Sequence[HashRange] = (),
) -> Iterator[Hashed]:
    """Return what counts in a table of these files, the newest first, in the order of hashes.

    `changes` are newer than all, and ordered; `hidden` is what was dropped before them.
    """
    sources: list[Iterable[tuple[int, int, bytes]]] = [
        ((number, 0, record) for number, record in changes)
    ]
    gone = list(hidden)
    for age, view in enumerate(views, start=1):
        if table in view.segment.tables:
            records = view.segment.tables[table].between(view.first, view.last)
            sources.append(_shown(records, age, tuple(gone)))
        gone += view.dropped(table)
    return _newest(merge(*sources))


def _shown(
    records: Iterable[Hashed], age: int, gone: Sequence[HashRange]
) -> Iterator[tuple[int, int, bytes]]:
    for number, record in records:
        if not any(first <= number <= last for first, last in gone):
            yield number, age, record


def _newest(records: Iterable[tuple[int, int, bytes]]) -> Iterator[Hashed]:
    """Of the records of a key, which stand beside each other, return the first."""
    at, seen = -1, set[bytes]()
    for number, _, record in records:
        if number != at:
            at, seen = number, set()
        if (key := key_in(record)) not in seen:
            seen.add(key)
            yield Hashed(number, record)


def needed(
    older: Sequence[SegmentView], dropped: Sequence[DroppedPart], own: HashRange
) -> tuple[list[SegmentView], list[DroppedPart]]:
    """Return which older files still count, and what must be known as dropped from them."""
    kept: list[SegmentView] = []
    drops = list(dropped)
    gone = {table_of(each) for each in drops if (each.first, each.last) == own}
    for view in older:
        if view.segment.tables.keys() <= gone:
            drops += drops_of(view)
        else:
            kept.append(view)
        gone |= {table_of(each) for each in drops_of(view) if (each.first, each.last) == own}
    there = {table for view in kept for table in view.segment.tables}
    return kept, [each for each in drops if table_of(each) in there]


def drops_of(view: SegmentView) -> list[DroppedPart]:
    """Return what was dropped in a file, as far as it counts."""
    return [
        DroppedPart(each.stage, each.part, max(each.first, view.first), min(each.last, view.last))
        for each in view.segment.footer.dropped
    ]


def table_of(dropped: DroppedPart) -> TableKey:
    return dropped.stage, written_key(dropped.part)
