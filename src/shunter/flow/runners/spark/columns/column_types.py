"""What types the fields of events have, so that they can be columns: by annotations or a schema.

A shape says by field what kind of column it is. Where anything is in doubt, there is none. Pure.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any

import msgspec

from shunter.flow.arrow import arrow

LONG, DOUBLE, STRING, BOOLEAN, BINARY = "long", "double", "string", "boolean", "binary"
TIMESTAMP = "timestamp"
"""A moment, in whatever zone; a datetime may also have none, so that it is DATETIME."""
DATETIME = "datetime"

Shape = Mapping[str, str]

_KINDS: dict[Any, str] = {
    int: LONG, float: DOUBLE, str: STRING, bool: BOOLEAN, bytes: BINARY, datetime: DATETIME,
}  # fmt: skip

_SPARK_KINDS = {
    "byte": LONG, "short": LONG, "integer": LONG, "long": LONG, "float": DOUBLE, "double": DOUBLE,
    "string": STRING, "boolean": BOOLEAN, "binary": BINARY, "timestamp": TIMESTAMP,
}  # fmt: skip

_ARROW_KINDS = (
    ("is_signed_integer", LONG), ("is_floating", DOUBLE), ("is_string", STRING),
    ("is_large_string", STRING), ("is_boolean", BOOLEAN), ("is_binary", BINARY),
)  # fmt: skip

_SPARK_TYPES = {
    "int8": "byte", "int16": "short", "int32": "integer", "int64": "long", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "bool": "boolean",
    "binary": "binary", "large_binary": "binary", "date32[day]": "date",
}  # fmt: skip
"""Arrow's types in Parquet files that Spark reads as exactly one type, whatever its settings."""

_SPARK_NOTE = b"org.apache.spark.sql.parquet.row.metadata"
"""Where a file that Spark wrote has its own types, which may be others than those of the file."""

_MANY = (list, tuple, Sequence, Iterable, Iterator, set, frozenset)


def kind_of(annotation: Any) -> str | None:
    """Return the kind of column for values of a type; `X | None` is as X."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(annotation) if each is not type(None)]
        annotation = others[0] if len(others) == 1 else None
    return _KINDS.get(annotation)


def shape_of(event_type: Any) -> Shape | None:
    """Return the shape of events of a type that has fields; fields of other types are left out."""
    is_known = isinstance(event_type, type) and (
        is_dataclass(event_type)
        or issubclass(event_type, msgspec.Struct)
        or (issubclass(event_type, tuple) and hasattr(event_type, "_fields"))
        or typing.is_typeddict(event_type)
    )
    hints = _hints(event_type) if is_known else {}
    return {name: kind for name, each in hints.items() if (kind := kind_of(each))} or None


def returned(function: Callable[..., Any]) -> Any:
    """Return the annotation of what a function returns, or None."""
    return _hints(function).get("return")


def items_of(annotation: Any) -> Any:
    """Return what the items are of what a function returns, or None."""
    if typing.get_origin(annotation) not in _MANY:
        return None
    first, *rest = typing.get_args(annotation)
    return first if not rest or rest == [...] else None


def shape_of_spark(schema: Any) -> Shape:
    """Return the shape of a schema of Spark's; columns of other types are left out."""
    kinds = {field.name: _SPARK_KINDS.get(field.dataType.typeName()) for field in schema.fields}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def shape_of_arrow(schema: Any) -> Shape:
    """Return the shape of a schema of Arrow's; columns of other types are left out."""
    kinds = {field.name: _kind_of_arrow(field.type) for field in schema}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind_of_arrow(kind: Any) -> str | None:
    of_type = arrow("pyarrow.types")
    if of_type.is_timestamp(kind):
        return TIMESTAMP if kind.tz else None
    return next((found for name, found in _ARROW_KINDS if getattr(of_type, name)(kind)), None)


def spark_columns(schema: Any, names: Sequence[str]) -> str | None:
    """Return Spark's types for columns of Parquet files, as it would find them out itself.

    To know them saves it a job. None where they depend on more than the schema.
    """
    kinds = [_SPARK_TYPES.get(str(schema.field(name).type)) for name in names]
    if any(kind is None for kind in kinds):
        return None
    if (note := (schema.metadata or {}).get(_SPARK_NOTE)) is not None:
        noted = {field["name"]: field["type"] for field in json.loads(note)["fields"]}
        if [noted.get(name) for name in names] != kinds:
            return None
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True))


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions have it."""
    return "`" + name.replace("`", "``") + "`"


def agreed(one: Shape, other: Shape) -> Shape:
    """Return what two shapes have in common."""
    return {name: kind for name, kind in one.items() if other.get(name) == kind}


def _hints(of: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of)
    except Exception:
        return {}
