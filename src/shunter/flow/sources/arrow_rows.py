"""Events made of a batch of Arrow's, column by column."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import Parameter, signature
from itertools import repeat
from typing import Any

import msgspec

from shunter.flow.arrow import arrow, is_whole, numbers_of
from shunter.flow.sources.port import WithBadInput, bad_input

_FITTING = {
    int: ("is_integer",), float: ("is_float64",), bool: ("is_boolean",),
    str: ("is_string", "is_large_string"),
}  # fmt: skip
"""By annotation: of which types columns have just such values."""


def events_of(
    batch: Any, kind: Any = None, place: Callable[[int], str] = "row {}".format
) -> list[Any]:
    """Make an event of each row: a dict, or an object of a dataclass or struct.

    A row that is none is bad input; `place` says where the index-th row of the batch is.
    """
    names: Sequence[str] = batch.schema.names
    columns = dict(zip(names, map(_values, batch.columns), strict=True))
    if kind is not None and (wanted := _positions(kind, batch)) is not None:
        return list(map(kind, *(columns[name] for name in wanted)))
    rows = list(map(dict, map(zip, repeat(names), zip(*columns.values(), strict=True))))
    if kind is None:
        return rows
    try:
        return msgspec.convert(rows, list[kind])
    except (msgspec.ValidationError, TypeError, ValueError):
        return _one_by_one(rows, kind, place)


def _one_by_one(rows: list[Any], kind: Any, place: Callable[[int], str]) -> list[Any]:
    events = WithBadInput()
    for index, row in enumerate(rows):
        try:
            events.append(msgspec.convert(row, kind))
        except (TypeError, ValueError) as error:
            fault = f"it is no {getattr(kind, '__name__', kind)}: {error}"
            events.append(bad_input(place(index), fault, repr(row)))
    return events


def _values(column: Any) -> list[Any]:
    """Return the values of a column; numbers without gaps come by the fast way."""
    if is_whole(column):
        return numbers_of(column).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _positions(kind: Any, batch: Any) -> list[str] | None:
    """Name the columns in the order in which a type takes them, if their values need no check."""
    taken = _taken_by(kind, batch.schema)
    if taken is None or any(
        batch.column(name).null_count and not may_be_none for name, may_be_none in taken.items()
    ):
        return None
    return list(taken)


@lru_cache(maxsize=64)
def _taken_by(kind: Any, schema: Any) -> dict[str, bool] | None:
    """Name the columns that a type takes, and which may have gaps; None where it must look."""
    names = _in_order(kind)
    if names is None or not set(names) <= set(schema.names):
        return None
    hints = typing.get_type_hints(kind)
    found = {}
    for name in names:
        annotation, found[name] = _without_none(hints[name])
        if not _is_fitting(annotation, schema.field(name).type):
            return None
    return found


def _in_order(kind: Any) -> list[str] | None:
    """Name the fields of a type that can be made by position, and of nothing else."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        is_plain = kind.__struct_encode_fields__ == kind.__struct_fields__
        kinds = [each.kind for each in signature(kind).parameters.values()]
        is_usual = is_plain and not config.forbid_unknown_fields and not config.tag
        is_positional = Parameter.KEYWORD_ONLY not in kinds
        return list(kind.__struct_fields__) if is_usual and is_positional else None
    if is_dataclass(kind) and all(each.init and not each.kw_only for each in fields(kind)):
        return [each.name for each in fields(kind)]
    return None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    others = [each for each in typing.get_args(annotation) if each is not type(None)]
    has_none = len(others) < len(typing.get_args(annotation))
    return others[0] if len(others) == 1 else None, has_none


def _is_fitting(annotation: Any, column_type: Any) -> bool:
    of_type = arrow("pyarrow.types")
    return any(getattr(of_type, name)(column_type) for name in _FITTING.get(annotation, ()))


def is_made_by_position(kind: Any, batch: Any) -> bool:
    """True if each row is sure to become an event of a type, with the values of the columns."""
    return _positions(kind, batch) is not None
