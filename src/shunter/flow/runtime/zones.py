"""The zones of moments, which msgpack does not keep: a datetime with a zone is one in UTC there.

So the zones of a batch travel beside it, each with the way to its datetime: places in lists, keys
of dicts, names of fields. Most batches have no datetime at all, and their bytes tell so. Pure.
"""

from __future__ import annotations

import types
import typing
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import chain
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

Zone = tuple[list[int] | None, list[Any], float, str]
"""In which events, where it is not in all; the way to the datetime in each of them; its offset from
UTC in seconds; and the key of its zone if it has one."""

_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_LEAVES_AND_MOMENTS = _LEAVES | {datetime}
_MOMENTS = (b"\xd6\xff", b"\xd7\xff", b"\xc7\x0c\xff")
"""How msgpack begins a timestamp."""

SMALL_BYTES = 2_048


def may_have_moments(encoded: bytes) -> bool:
    """False if bytes of msgpack hold no datetime with a zone; else they are likely to."""
    if len(encoded) < SMALL_BYTES:
        return any(begin in encoded for begin in _MOMENTS)
    return b"\xff" in encoded and _finder()(encoded)


@lru_cache(maxsize=1)
def _finder() -> Callable[[bytes], bool]:
    """Return the fastest way to look through bytes that this process has."""
    try:
        import numpy
    except ImportError:
        return _found_by_cutting

    def found_by_numpy(encoded: bytes) -> bool:
        there = numpy.frombuffer(encoded, numpy.uint8)
        before = there[numpy.flatnonzero(there == 0xFF) - 1]
        return bool(((before & 0xFE) == 0xD6).any() or (before == 0x0C).any())

    return found_by_numpy


def _found_by_cutting(encoded: bytes) -> bool:
    *pieces, _ = encoded.split(b"\xff")
    return any(piece.endswith((b"\xd6", b"\xd7", b"\xc7\x0c")) for piece in pieces)


def zones_in(events: list[Any]) -> list[Zone]:
    """Find the datetimes that are not in UTC, wherever they are in these events."""
    kinds = set(map(type, events))
    if not any(map(_may_hold_moments, kinds)) or (kinds == {dict} and _are_plain(events)):
        return []
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    _find(enumerate(events), (), found)
    return [
        (None if len(indexes) == len(events) else indexes, list(way), offset, key)
        for (offset, key, *way), indexes in found.items()
    ]


def _are_plain(events: list[Any]) -> bool:
    """True if these dicts are flat, without a datetime that has another zone than UTC."""
    values = list(chain.from_iterable(map(dict.values, events)))
    if not set(map(type, values)) <= _LEAVES_AND_MOMENTS:
        return False
    return {value.tzinfo for value in values if type(value) is datetime} <= {UTC, None}


def with_zones(events: list[Any], zones: Iterable[Zone]) -> list[Any]:
    """Give datetimes in UTC the zones that they had."""
    for indexes, way, offset, key in zones:
        zone = _zone(offset, key)
        for index in range(len(events)) if indexes is None else indexes:
            events[index] = _mend(events[index], way, zone)
    return events


def _find(
    parts: Iterable[tuple[Any, Any]], way: tuple[Any, ...], found: dict[tuple[Any, ...], list[int]]
) -> None:
    for step, value in parts:
        kind = type(value)
        if kind in _LEAVES:
            continue
        if kind is datetime:
            zone = value.tzinfo
            if zone is not None and zone is not UTC:
                key = getattr(zone, "key", None) or ""
                offset = value.utcoffset()
                if offset or key not in ("", "UTC"):
                    index, *rest = (*way, step)
                    found[offset.total_seconds(), key, *rest].append(index)
        elif kind is dict:
            _find(value.items(), (*way, step), found)
        elif kind is list or isinstance(value, tuple):
            _find(enumerate(value), (*way, step), found)
        elif names := _fields_of(cast(Hashable, kind)):
            parts_of = ((name, getattr(value, name, None)) for name in names)
            _find(parts_of, (*way, step), found)


@lru_cache(maxsize=256)
def _may_hold_moments(kind: Any) -> bool:
    """False if values of a type are plain, or objects whose fields are by their annotations."""
    if kind in _LEAVES:
        return False
    if not (issubclass(kind, msgspec.Struct) or is_dataclass(kind)):
        return True
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # names that are not known here; whatever they are called
        return True
    return not all(map(_is_leaf, hints.values()))


def _is_leaf(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(map(_is_leaf, typing.get_args(hint)))
    return hint in _LEAVES


@lru_cache(maxsize=256)
def _fields_of(kind: Any) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return tuple(kind.__struct_fields__)
    return tuple(kind.__dataclass_fields__) if is_dataclass(kind) else ()


def _mend(holder: Any, way: list[Any], zone: tzinfo) -> Any:
    """Return a value in which the datetime at the end of a way has its zone.

    What can be changed is changed; a tuple is made anew. Where the way does not lead to a
    datetime, because something has become another type on its way, all stays as it is.
    """
    if not way:
        return holder.astimezone(zone) if isinstance(holder, datetime) and holder.tzinfo else holder
    step, rest = way[0], way[1:]
    try:
        if isinstance(holder, tuple):
            items = list(holder)
            items[step] = _mend(items[step], rest, zone)
            make = getattr(type(holder), "_make", type(holder))
            return make(items)
        if isinstance(holder, dict | list):
            holder[step] = _mend(holder[step], rest, zone)
        elif isinstance(holder, msgspec.Struct):
            msgspec.structs.force_setattr(holder, step, _mend(getattr(holder, step), rest, zone))
        elif is_dataclass(holder):
            object.__setattr__(holder, step, _mend(getattr(holder, step), rest, zone))
    except (LookupError, AttributeError, TypeError):
        return holder
    return holder


@lru_cache(maxsize=1024)
def _zone(offset: float, key: str) -> tzinfo:
    if key:
        try:
            return ZoneInfo(key)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    return timezone(timedelta(seconds=offset))
