"""Events as records: what tables and columns want of them."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, get_type_hints

import msgspec

from shunter.errors import FlowError

_KEPT = (
    bytes,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


_SCALARS = {int, float, str, bool, *_KEPT}


def records_of(events: Sequence[Any]) -> list[dict[str, Any]]:
    """Return events as dicts, or raise a FlowError for one that has no fields."""
    if all(type(event) is dict for event in events):
        return list(events)
    return [event if type(event) is dict else _record_of(event) for event in events]


def _record_of(event: Any) -> dict[str, Any]:
    if isinstance(event, dict | msgspec.Struct) or (
        is_dataclass(event) and not isinstance(event, type)
    ):
        record = msgspec.to_builtins(event, builtin_types=_KEPT)
        if isinstance(record, dict):
            return record
    raise FlowError(
        f"{event!r} has no fields; this sink takes dicts, dataclasses and structs, so map events "
        "to one of these first"
    )


def columns_of(events: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the fields of events as columns; a field that an event has not got is None there."""
    kinds = set(map(type, events))
    if kinds == {dict}:
        return _columns_of_dicts(events)
    if len(kinds) == 1 and (names := _plain_fields(kinds.pop())):
        return {name: list(map(attrgetter(name), events)) for name in names}
    return _columns_of_dicts(records_of(events))


def _columns_of_dicts(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    try:
        names = list(records[0])
        columns = {name: list(map(itemgetter(name), records)) for name in names}
    except (KeyError, IndexError):
        columns = {}
    if not columns or any(len(record) > len(columns) for record in records):
        every = dict.fromkeys(chain.from_iterable(records))
        columns = {name: [record.get(name) for record in records] for name in every}
    return columns


@lru_cache(maxsize=64)
def _plain_fields(kind: type) -> tuple[str, ...]:
    """Name the fields of a type that are columns as they are; none if it is written otherwise."""
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        is_plain = kind.__struct_encode_fields__ == kind.__struct_fields__ and not config.tag
        names = kind.__struct_fields__ if is_plain and not config.omit_defaults else ()
    else:
        names = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
    try:
        hints = get_type_hints(kind)
    except Exception:  # an annotation that can't be found; then values are looked at
        return ()
    return names if all(hints.get(name) in _SCALARS for name in names) else ()
