"""Sinks that are written where events are computed: by Spark's tasks, which tell what they wrote.

A task that ends in such a sink sends one more row, its *manifest*: the parts that it has written
and what its stages have done. The driver gets manifests alone, and publishes what they name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from shunter.flow.arrow import arrow
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.location import Location
from shunter.flow.runners.spark.batch.envelopes import LAST_EPOCH, EnvelopeRow, Tallies
from shunter.flow.runners.spark.dataframe_source import TAKEN
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.sinks.file_sink import FileSink, StagedOutput, widened
from shunter.flow.sinks.part_writer import PartWriter
from shunter.flow.sinks.parts import PartFile, schema_of
from shunter.flow.sinks.task_files import TaskFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST_EDGE = 1 << 30
"""The number of the edge by which manifests go to the driver."""

MANIFEST_COLUMNS = "taken long, rows long, body binary"


class SinkManifest(msgspec.Struct, frozen=True):
    """What a task has written, and what its stages have done."""

    parts: list[PartFile]
    tallies: Tallies


def is_written_by_tasks(stage: Stage) -> bool:
    """True if a stage is a sink that tasks write."""
    return stage.kind is StageKind.SINK and (
        isinstance(stage.what, FileSink) or getattr(stage.what, "runs_in_tasks", False)
    )


def manifest_row(node: int, sender: int, manifest: SinkManifest) -> EnvelopeRow:
    body = msgspec.msgpack.encode(manifest)
    return EnvelopeRow(MANIFEST_EDGE, node, LAST_EPOCH, True, sender, 0, "", body)


def manifests_in(bodies: Sequence[bytes]) -> tuple[list[PartFile], Tallies]:
    """Return what all tasks of a sink have told."""
    parts: list[PartFile] = []
    tallies: Tallies = {}
    for body in bodies:
        manifest = msgspec.msgpack.decode(body, type=SinkManifest)
        parts += manifest.parts
        tallies |= manifest.tallies
    return parts, tallies


class FilesOfTask:
    """The part files of one task, as a sink of its last stage."""

    def __init__(self, files: TaskFiles) -> None:
        self._files = files
        self._writer: PartWriter | None = None
        self.parts: list[PartFile] = []

    def open(self, saved: None) -> None:
        self._writer = self._files.writer(*this_task())

    def write(self, events: Sequence[Any]) -> int:
        assert self._writer is not None, "not open"
        self._writer.write(events)
        return len(events)

    def checkpoint(self) -> None:
        return

    def close(self) -> None:
        if self._writer is not None:
            self.parts += self._writer.finish()
            self._writer = None

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None


def in_utc(batch: Any) -> Any:
    """Return a batch whose times name their zone as everybody does; Spark has it as Etc/UTC."""
    types, utc = arrow("pyarrow.types"), arrow().timestamp("us", "UTC")
    columns = [
        column.cast(utc) if types.is_timestamp(column.type) and column.type.tz else column
        for column in batch.columns
    ]
    return arrow().RecordBatch.from_arrays(columns, names=batch.schema.names)


def this_task() -> tuple[int, str]:
    """Return the number of this task's partition, and a name for this try of it alone."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "called by Spark alone"
    return context.partitionId(), str(context.taskAttemptId())


@dataclass
class WriteColumns:
    """Called by Spark with the batches of one partition; writes them to files as they are.

    A column TAKEN, which results of an aggregate have, is summed up and not written.
    """

    name: str
    files: TaskFiles

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.name):
            writer, taken, rows = self.files.writer(*this_task()), 0, 0
            try:
                for batch in batches:
                    rows += batch.num_rows
                    if TAKEN in batch.schema.names:
                        taken += arrow("pyarrow.compute").sum(batch.column(TAKEN)).as_py() or 0
                        batch = batch.drop_columns([TAKEN])
                    writer.write_batch(in_utc(batch))
                manifest = SinkManifest(writer.finish(), {})
            except BaseException:
                writer.abandon()
                raise
            yield _manifest_batch(manifest, taken, rows)


def _manifest_batch(manifest: SinkManifest, taken: int = 0, rows: int = 0) -> Any:
    counts = arrow().array([taken], arrow().int64()), arrow().array([rows], arrow().int64())
    body = arrow().array([msgspec.msgpack.encode(manifest)], arrow().binary())
    return arrow().RecordBatch.from_arrays([*counts, body], names=["taken", "rows", "body"])


def written_columns(
    frame: DataFrame, name: str, output: StagedOutput
) -> tuple[list[PartFile], int, int]:
    """Have tasks write a DataFrame to a sink's files.

    Returns the parts, the sum of TAKEN, and how many rows they have.
    """
    told = frame.mapInArrow(WriteColumns(name, output.task), MANIFEST_COLUMNS).collect()
    parts, _ = manifests_in([bytes(row["body"]) for row in told])
    return parts, sum(row["taken"] for row in told), sum(row["rows"] for row in told)


def widened_parts(
    session: SparkSession, output: StagedOutput, parts: list[PartFile]
) -> list[PartFile]:
    """Have tasks write those parts again that lack columns which others have."""
    narrow = output.narrow(parts)
    if not narrow:
        return parts
    columns = bytes(schema_of(parts).serialize())
    task = WidenParts(output.task.staging, columns, msgspec.msgpack.encode(narrow))
    rows = session.range(0, len(narrow), 1, len(narrow)).mapInArrow(task, MANIFEST_COLUMNS)
    wide, _ = manifests_in([bytes(row.body) for row in rows.collect()])
    names = {part.name for part in narrow}
    return [*(part for part in parts if part.name not in names), *wide]


@dataclass
class WidenParts:
    """Called by Spark with the numbers of parts; writes these again with all columns."""

    staging: Location
    columns: bytes
    parts: bytes

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pyarrow = arrow()
        parts = msgspec.msgpack.decode(self.parts, type=list[PartFile])
        columns = pyarrow.ipc.read_schema(pyarrow.py_buffer(self.columns))
        for batch in batches:
            wide = [widened(parts[n], self.staging, columns) for n in batch.column(0).to_pylist()]
            yield _manifest_batch(SinkManifest(wide, {}))
