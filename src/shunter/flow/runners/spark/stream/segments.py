"""One file of states by key: written once, and looked into without being read as a whole.

For each table (a stage, and a part of it) the file has the records of its keys in the order of
their hashes, then two columns of numbers: the hashes, and where each record begins. So one key is
found by bisection, and the keys of some groups are one range. A footer says where tables are, which
parts were dropped before, and which older files still count; its own tables come before theirs.

    record   length of the key's canonical form (4 bytes), that form, then msgpack: [key, state]
    file     tables, footer (msgpack), its length (8 bytes), a mark

It is given bytes and returns bytes: where files are is not known here.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.keys import as_key, read_key, written_key

assert sys.byteorder == "little", "columns of numbers are written as they are in memory"

MARK = b"SHUNTST1"
TAIL = 8 + len(MARK)
LENGTH = 4

HashRange = tuple[int, int]
"""The first and the last hash."""

ALL_HASHES: HashRange = (0, 2**64 - 1)

_PLAIN = frozenset({str, float, bool, bytes})


class Hashed(NamedTuple):
    """A record and the hash of its key."""

    hash: int
    record: bytes


class TableEntry(msgspec.Struct, frozen=True, array_like=True):
    """Where a table is: its columns begin at `at`, and its records before that."""

    stage: str
    part: Any
    count: int
    at: int


class DroppedPart(msgspec.Struct, frozen=True, array_like=True):
    """Older states of a part don't count for keys with hashes from `first` to `last`."""

    stage: str
    part: Any
    first: int
    last: int


class SegmentRef(msgspec.Struct, frozen=True, array_like=True):
    """A file of states by its name; it counts for the keys with these hashes alone."""

    name: str
    first: int
    last: int


class SegmentFooter(msgspec.Struct, frozen=True, array_like=True):
    """What is in a file of the worker `index`, which has the keys with hashes `first` to `last`.

    `whole` are the small states of stages that are kept as a whole.
    """

    batch: int
    worker: str
    index: int
    first: int
    last: int
    whole: dict[str, Any]
    tables: list[TableEntry]
    dropped: list[DroppedPart]
    older: list[SegmentRef]


class SegmentOutput(Protocol):
    """A file that is written to."""

    def write(self, data: bytes, /) -> Any: ...


class SegmentWriter:
    """Writes a file from its beginning to its end."""

    def __init__(self, file: SegmentOutput) -> None:
        self._file, self.size = file, 0
        self._tables: list[TableEntry] = []

    def add_table(self, stage: str, part: Any, records: Iterable[Hashed]) -> None:
        """Write the records of a table, which come in the order of their hashes."""
        hashes, offsets = array("Q"), array("Q", [self.size])
        for number, record in records:
            self._write(record)
            hashes.append(number)
            offsets.append(self.size)
        if hashes:
            self._tables.append(TableEntry(stage, part, len(hashes), self.size))
            self._write(hashes.tobytes())
            self._write(offsets.tobytes())

    def finish(
        self,
        *,
        batch: int,
        worker: str,
        index: int,
        own: HashRange,
        whole: dict[str, Any],
        dropped: Iterable[DroppedPart] = (),
        older: Iterable[SegmentRef] = (),
    ) -> None:
        footer = SegmentFooter(
            batch, worker, index, *own, whole, self._tables, list(dropped), list(older)
        )
        body = msgspec.msgpack.encode(footer)
        self._write(body + len(body).to_bytes(8, "little") + MARK)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


class Segment:
    """A file of states, in memory or mapped into it."""

    def __init__(self, name: str, buffer: memoryview) -> None:
        self.name, self.size = name, len(buffer)
        self.footer = _footer(name, buffer)
        self.tables = {
            (entry.stage, written_key(entry.part)): SegmentTable(entry, buffer)
            for entry in self.footer.tables
        }
        self.dropped: dict[tuple[str, bytes], list[DroppedPart]] = {}
        for each in self.footer.dropped:
            self.dropped.setdefault((each.stage, written_key(each.part)), []).append(each)


def _footer(name: str, buffer: memoryview) -> SegmentFooter:
    length = footer_length(name, buffer[-TAIL:])
    return footer_in(name, buffer[-TAIL - length : -TAIL])


def footer_length(name: str, tail: bytes | memoryview) -> int:
    """Return how long the footer is before the last bytes of a file."""
    if len(tail) < TAIL or tail[-len(MARK) :] != MARK:
        raise _unreadable(name, "its end is missing")
    return int.from_bytes(tail[: -len(MARK)], "little")


def footer_in(name: str, body: bytes | memoryview) -> SegmentFooter:
    try:
        return msgspec.msgpack.decode(body, type=SegmentFooter)
    except msgspec.DecodeError as error:
        raise _unreadable(name, str(error)) from error


def _unreadable(name: str, reason: str) -> FlowError:
    return FlowError(
        f"the states in {name} can't be read ({reason}); the stream can't go on from there: "
        "name another folder with --checkpoints to begin anew"
    )


class SegmentView(NamedTuple):
    """A file of states, as far as it counts: for the keys with hashes from `first` to `last`."""

    segment: Segment
    first: int
    last: int

    @property
    def ref(self) -> SegmentRef:
        return SegmentRef(self.segment.name, self.first, self.last)

    @property
    def counts(self) -> bool:
        """True if something may be in it that older files don't have."""
        return bool(self.segment.tables or self.segment.dropped)

    def within(self, first: int, last: int) -> SegmentView:
        """Return what of it is in a range too."""
        return SegmentView(self.segment, max(first, self.first), min(last, self.last))

    def dropped(self, table: tuple[str, bytes]) -> list[HashRange]:
        """Return for which hashes a table was dropped here; older states of them don't count."""
        found = self.segment.dropped.get(table, ())
        return [(max(each.first, self.first), min(each.last, self.last)) for each in found]


class SegmentTable:
    """The records of one table."""

    def __init__(self, entry: TableEntry, buffer: memoryview) -> None:
        self.part = entry.part
        between = entry.at + 8 * entry.count
        self._buffer, self._count = buffer, entry.count
        self._hashes = buffer[entry.at : between].cast("Q")
        self._offsets = buffer[between : between + 8 * (entry.count + 1)].cast("Q")

    def find(self, number: int, written: bytes) -> bytes | None:
        """Return the record of a key, by its hash and canonical form; None if it is not here."""
        hashes, at = self._hashes, bisect_left(self._hashes, number)
        while at < self._count and hashes[at] == number:
            record = self._record(at)
            if key_in(record) == written:
                return record
            at += 1
        return None

    def between(self, first: int, last: int) -> Iterator[Hashed]:
        """Return the records of the hashes from the first to the last."""
        at = bisect_left(self._hashes, first)
        while at < self._count and (number := self._hashes[at]) <= last:
            yield Hashed(number, self._record(at))
            at += 1

    def _record(self, at: int) -> bytes:
        return bytes(self._buffer[self._offsets[at] : self._offsets[at + 1]])


# ---- records


def record_of(written: bytes, key: Any, state: Any) -> bytes:
    """Return the record of a key; `written` is its canonical form.

    The key itself is in it where that is more than its form says, as with True and 1.
    """
    body = msgspec.msgpack.encode([key if _is_plain(key) else None, state])
    return len(written).to_bytes(LENGTH, "little") + written + body


def _is_plain(key: Any) -> bool:
    if type(key) is int:
        return -(2**63) <= key < 2**64
    return type(key) in _PLAIN or (type(key) is tuple and all(map(_is_plain, key)))


def key_in(record: bytes) -> bytes:
    """Return the canonical form of a record's key."""
    return record[LENGTH : LENGTH + int.from_bytes(record[:LENGTH], "little")]


def item_in(record: bytes) -> tuple[Any, Any]:
    """Return the key of a record, and its state."""
    key, state = msgspec.msgpack.decode(_body(record))
    return (read_key(key_in(record)) if key is None else as_key(key)), state


def state_in(record: bytes) -> Any:
    return msgspec.msgpack.decode(_body(record))[1]


def _body(record: bytes) -> bytes:
    return record[LENGTH + int.from_bytes(record[:LENGTH], "little") :]
