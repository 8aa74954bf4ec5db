"""Events as records: what tables and columns want of them."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

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
