"""Part files: what many writers have written at once, named such that no two are alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from shunter.flow.arrow import arrow

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive, and who reads its folders, writes that a partition has no value."""


class PartFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that was written. `name` is its path in the target's folder, `values` its partition.

    `schema` is Arrow's, as bytes; it is empty for formats that have none.
    """

    name: str
    rows: int
    size: int
    schema: bytes = b""
    values: tuple[tuple[str, str | None], ...] = ()


OUR_NAMES = re.compile(r"(^|/)part-\d{5,}-[0-9a-f]{32}[-.]")
"""The names that part files have."""


class PartNames:
    """Names the files of one writer, one after the other; `run` is that of its try alone."""

    def __init__(self, run: str, suffix: str, number: int = 0) -> None:
        self._run, self._suffix, self.number = run, suffix, number

    def next(self) -> str:
        number, self.number = self.number, self.number + 1
        return f"part-{number:05d}-{self._run}{self._suffix}"


def number_of(part: PartFile) -> int:
    """Return which of its writer's files a part is."""
    return int(part.name.rpartition("/")[2].split("-")[1])


def partition_folder(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return the folder of a partition, such as `day=2026-11-16/shop=north/`."""
    return "".join(
        f"{quote(name, safe='')}={quote(_text(value), safe=' ')}/"
        for name, value in zip(names, values, strict=True)
    )


def partition_values(names: Sequence[str], values: Sequence[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the values of a partition as texts."""
    return tuple(
        (name, None if value is None else _text(value))
        for name, value in zip(names, values, strict=True)
    )


def _text(value: Any) -> str:
    if value is None or value == "":
        return NO_VALUE
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


PackedParts = tuple[Sequence[bytes], Sequence[Sequence[Any]]]


def packed(parts: Sequence[PartFile]) -> PackedParts:
    """Return parts as plain values for a checkpoint, each schema once."""
    schemas = list(dict.fromkeys(part.schema for part in parts if part.schema))
    places = {schema: at for at, schema in enumerate(schemas)}
    return schemas, [
        [part.name, part.rows, part.size, places.get(part.schema, -1), part.values]
        for part in parts
    ]


def unpacked(schemas: Sequence[bytes], rows: Sequence[Sequence[Any]]) -> list[PartFile]:
    """Return the parts that were packed."""
    return [
        PartFile(name, count, size, schemas[at] if at >= 0 else b"", tuple(map(tuple, values)))
        for name, count, size, at, values in rows
    ]


def unified(schemas: Iterable[Any]) -> Any:
    """Return the columns of all schemas, numbers as wide as the widest needs them."""
    return arrow().unify_schemas(list(schemas), promote_options="permissive")


def schema_of(parts: Iterable[PartFile]) -> Any:
    """Return the columns that all parts have together; None if they have no schema."""
    schemas = {part.schema for part in parts if part.schema}
    if not schemas:
        return None
    return unified(arrow().ipc.read_schema(arrow().py_buffer(each)) for each in sorted(schemas))
