"""What writes parts of an output that another process publishes: a task, or one of several workers.

Neither sweeps or publishes anything. Their parts have names that no other try has, so that a
process which was taken for dead, and goes on writing, does no harm.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shunter.errors import FlowError
from shunter.flow.location import Location
from shunter.flow.sinks.formats import Format
from shunter.flow.sinks.local_target import MARKER
from shunter.flow.sinks.part_writer import PartWriter
from shunter.flow.sinks.parts import PartFile, PartNames, packed, unpacked

TRY_BYTES = 4


@dataclass(frozen=True)
class TaskFiles:
    """What a task needs to write its parts; it goes to executors."""

    staging: Location
    form: Format
    partition_by: tuple[str, ...]
    run: str
    columns: bytes = b""

    def writer(self, number: int, attempt: str, known: Sequence[PartFile] = ()) -> PartWriter:
        """Begin the parts of a task; refuse a folder that this host does not share."""
        if self.staging.is_local and not (self.staging / MARKER).is_file():
            raise FlowError(
                f"this host runs a part of the flow and does not see {self.staging.parent}; let "
                "the sink's path be a URL that all hosts reach, such as s3://bucket/folder, or a "
                "folder that they share"
            )
        names = PartNames(f"{self.run}-{number}-{attempt}", self.form.suffix)
        columns = PartFile("", 0, 0, self.columns)
        return PartWriter(
            self.staging, self.form, names, partition_by=self.partition_by, known=[columns, *known]
        )


class FileShare:
    """The sink of one of several workers. What it has written is in its checkpoints."""

    def __init__(self, files: TaskFiles, index: int) -> None:
        self._files, self._index = files, index
        self._parts: list[PartFile] = []
        self._writer: PartWriter | None = None

    def open(self, saved: Any | None) -> None:
        self.abandon()
        self._parts = [] if saved is None else parts_in(saved)
        self._writer = self._files.writer(
            self._index, secrets.token_hex(TRY_BYTES), known=self._parts
        )

    def write(self, events: Sequence[Any]) -> int:
        assert self._writer is not None, "not open"
        self._writer.write(events)
        return len(events)

    def checkpoint(self) -> Any:
        """Return the parts that were written so far, for the next `open` and for who publishes."""
        if self._writer is not None:
            self._parts += self._writer.finish()
        return [self._files.run, *packed(self._parts)]

    def close(self) -> None:
        """End the files; who has begun the run publishes them."""
        self.checkpoint()
        self._writer = None

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        self._writer = None


def run_in(saved: Any) -> str:
    """Return the run that a checkpoint of a share is of."""
    return str(saved[0])


def parts_in(saved: Any) -> list[PartFile]:
    """Return the parts that a checkpoint of a share names."""
    _, schemas, rows = saved
    return unpacked(schemas, rows)
