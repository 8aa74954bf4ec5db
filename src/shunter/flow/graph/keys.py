"""Which worker a key belongs to: the same in every process, on every host, in every run.

Python's own `hash` differs from run to run, so a key is written down in one canonical form, as
msgpack, and its digest is the hash. Keys that are equal in Python have the same form: True, 1 and
1.0 do, and so do two moments in different time zones. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from enum import Enum
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from shunter.errors import FlowError

MOST_KNOWN = 65_536
"""How many keys a spread remembers; then it begins anew."""

KEY_GROUPS = 1_024
"""Into so many groups all keys fall, however many workers there are; states are kept by them."""

_GROUP_SHIFT = 64 - 10

_BIG, _DATE, _LOCAL_TIME, _MOMENT, _UUID = range(1, 6)
_BEGINNING = datetime.min
_MICROSECOND = datetime.resolution

_encode = msgspec.msgpack.Encoder().encode


def stable_hash(key: Any) -> int:
    """Return 64 bits that are the same for equal keys everywhere, or raise a FlowError."""
    return hash_of(written_key(key))


def written_key(key: Any) -> bytes:
    """Return a key in its canonical form: the same bytes for equal keys, and for no others."""
    try:
        return _encode(_canonical(key))
    except UnicodeEncodeError:
        raise FlowError(f"the key {key!r} has half a character in it; let it be whole") from None


def read_key(written: bytes) -> Any:
    """Return a key that is equal to the one that was written; of an enum, its value."""
    return _read(msgspec.msgpack.decode(written))


def hash_of(written: bytes) -> int:
    """Return the stable hash of a key in its canonical form."""
    return int.from_bytes(blake2b(written, digest_size=8).digest())


def key_group(key: Any) -> int:
    """Return the group of a key: the highest bits of its hash, so that hashes sort by group."""
    return stable_hash(key) >> _GROUP_SHIFT


def hashes_of(index: int, workers: int) -> tuple[int, int]:
    """Return the first and the last hash of the key groups that a worker has."""
    first = -(-index * KEY_GROUPS // workers)
    behind = -(-(index + 1) * KEY_GROUPS // workers)
    return first << _GROUP_SHIFT, (behind << _GROUP_SHIFT) - 1


def as_key(saved: Any) -> Any:
    """Return the key that was saved; what comes back as a list was a tuple."""
    return tuple(map(as_key, saved)) if isinstance(saved, list) else saved


class KeyPartitioner:
    """Spreads keys over workers. What it has worked out it remembers, within bounds."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._known = _Indexes(workers)

    def index(self, key: Any) -> int:
        """Return the index of the worker that has this key."""
        return self.indexes((key,))[0]

    def indexes(self, keys: Sequence[Any]) -> list[int]:
        """Return the index for each key."""
        try:
            return list(map(self._known.__getitem__, keys))
        except TypeError:
            return [stable_hash(key) % self.workers for key in keys]


class KeyGroupPartitioner(KeyPartitioner):
    """Gives each worker a range of key groups, so that states move by ranges to other workers."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._known = _Indexes(workers, self._index)

    def indexes(self, keys: Sequence[Any]) -> list[int]:
        try:
            return list(map(self._known.__getitem__, keys))
        except TypeError:
            return list(map(self._index, keys))

    def _index(self, key: Any) -> int:
        return key_group(key) * self.workers // KEY_GROUPS


class _Indexes(dict[Any, int]):
    """The index by key; asked for one that is not there, it works it out."""

    def __init__(self, workers: int, index: Callable[[Any], int] | None = None) -> None:
        super().__init__()
        self._index = index or (lambda key: stable_hash(key) % workers)

    def __missing__(self, key: Any) -> int:
        if len(self) >= MOST_KNOWN:
            self.clear()
        index = self[key] = self._index(key)
        return index


def _canonical(key: Any) -> Any:
    match key:
        case Enum():
            return _canonical(key.value)
        case None | bytes():
            return key
        case str():
            return str.__str__(key)
        case int():
            return _whole(int(key))
        case float():
            return _number(key)
        case tuple():
            return list(map(_canonical, key))
        case datetime():
            return _time(key)
        case date():
            return _tagged(_DATE, key.toordinal())
        case UUID():
            return Ext(_UUID, key.bytes)
    raise FlowError(
        f"a key is of type {type(key).__qualname__}; let it be text, bytes, a number, a date or "
        "time, a UUID, an enum, None, or a tuple of these"
    )


def _whole(number: int) -> Any:
    return number if -(2**63) <= number < 2**64 else _tagged(_BIG, number)


def _number(number: float) -> Any:
    if number.is_integer():
        return _whole(int(number))
    return math.nan if math.isnan(number) else float(number)


def _time(moment: datetime) -> Ext:
    """Write a time down as a number, in UTC where its zone is known, without regard to `fold`."""
    moment = moment.replace(fold=0)
    offset = moment.utcoffset()
    passed = moment.replace(tzinfo=None) - _BEGINNING
    if offset is None:
        return _tagged(_LOCAL_TIME, passed // _MICROSECOND)
    return _tagged(_MOMENT, (passed - offset) // _MICROSECOND)


def _tagged(code: int, number: int) -> Ext:
    return Ext(code, number.to_bytes(number.bit_length() // 8 + 1, signed=True))


def _read(written: Any) -> Any:
    match written:
        case list():
            return tuple(map(_read, written))
        case Ext(code=code, data=data) if code == _UUID:
            return UUID(bytes=bytes(data))
        case Ext(code=code, data=data):
            number = int.from_bytes(data, signed=True)
            if code == _DATE:
                return date.fromordinal(number)
            if code == _BIG:
                return number
            moment = _BEGINNING + number * _MICROSECOND
            return moment.replace(tzinfo=UTC) if code == _MOMENT else moment
    return written
