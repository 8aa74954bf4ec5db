"""Writes the part files of one writer: a task, or a worker that goes on from checkpoints."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from shunter.durable_files import flush_to_disk
from shunter.errors import FlowError
from shunter.flow.location import Location, file_faults
from shunter.flow.sinks.formats import FileWriter, Format, ParquetWriter
from shunter.flow.sinks.parts import (
    PartFile,
    PartNames,
    partition_folder,
    partition_values,
    schema_of,
    unified,
)
from shunter.flow.sinks.records import records_of

MOST_OPEN = 64
"""How many files of different partitions are open at once; then the oldest one is ended."""


@dataclass
class _OpenFile:
    name: str
    file: BinaryIO
    writer: FileWriter
    values: tuple[tuple[str, str | None], ...]


class PartWriter:
    """`names` names each next file; `known` are parts of before, with their columns."""

    def __init__(
        self,
        folder: Location,
        form: Format,
        names: PartNames,
        *,
        partition_by: Sequence[str] = (),
        known: Iterable[PartFile] = (),
    ) -> None:
        self._folder, self._format, self._names = folder, form, names
        self._partition_by = tuple(partition_by)
        self._schema: Any = schema_of(known)
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._parts: list[PartFile] = []

    def write(self, events: Sequence[Any]) -> None:
        """Take events; they are in files when `finish` was called."""
        if not self._partition_by:
            self._write("", (), events)
            return
        for values, records in self._by_partition(events).items():
            folder = partition_folder(self._partition_by, values)
            self._write(folder, partition_values(self._partition_by, values), records)

    def write_batch(self, batch: Any) -> None:
        """Take a batch of Arrow's, which goes into a Parquet file as it is."""
        if not batch.num_rows:
            return
        if "" not in self._open:
            self._begin("", ())
        writer = self._open[""].writer
        assert isinstance(writer, ParquetWriter), "others have no columns"
        with file_faults(self._folder):
            writer.write_batch(batch)

    @property
    def schema_bytes(self) -> bytes:
        """The columns that were seen so far; empty if the format has none."""
        return b"" if self._schema is None else bytes(self._schema.serialize())

    def finish(self) -> list[PartFile]:
        """End all files, safe on their disk, and return those since the last time."""
        while self._open:
            self._end(next(iter(self._open)))
        parts, self._parts = self._parts, []
        return parts

    def abandon(self) -> None:
        """Let go of files that are not ended."""
        for each in self._open.values():
            with suppress(Exception):
                each.file.close()
        self._open.clear()

    def _by_partition(self, events: Sequence[Any]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in records_of(events):
            rest = dict(record)
            try:
                values = tuple(rest.pop(name) for name in self._partition_by)
            except KeyError as error:
                raise FlowError(
                    f"{self._folder}: an event has no {error}, by which its output is partitioned "
                    "(partition_by=…); give each event that field"
                ) from None
            found.setdefault(values, []).append(rest)
        return found

    def _write(self, key: str, values: tuple[Any, ...], events: Sequence[Any]) -> None:
        left = events
        while left:
            if key not in self._open:
                self._begin(key, values)
            self._open.move_to_end(key)
            with file_faults(self._folder):
                left = self._open[key].writer.write(left)
            if left:
                self._end(key)

    def _begin(self, key: str, values: tuple[Any, ...]) -> None:
        if len(self._open) >= MOST_OPEN:
            self._end(next(iter(self._open)))
        name = key + self._names.next()
        with file_faults(self._folder):
            file = (self._folder / name).create()
        self._open[key] = _OpenFile(name, file, self._format.writer(file, self._schema), values)

    def _end(self, key: str) -> None:
        each = self._open[key]
        with file_faults(self._folder):
            left = each.writer.flush()
            schema = each.writer.close()
            size = _closed(each.file, self._folder / each.name)
        del self._open[key]
        if each.writer.schema is not None:
            known = [] if self._schema is None else [self._schema]
            self._schema = unified([*known, each.writer.schema])
        if each.writer.rows:
            self._parts.append(PartFile(each.name, each.writer.rows, size, schema, each.values))
        else:
            (self._folder / each.name).delete()
        self._write(key, each.values, left)


def _closed(file: BinaryIO, location: Location) -> int:
    """Close a file such that it survives a crash of the host; return its size."""
    if location.is_local:
        flush_to_disk(file)
        size = os.fstat(file.fileno()).st_size
        file.close()
        return size
    file.close()
    return location.size()
