"""Sinks of a stream whose files are written by tasks: the driver gets manifests, and publishes.

Of the rows that go into such a sink, a task writes the events to part files, and passes on only the
instructions and its manifest. Which parts count is in the commit of the batch; what no commit
names is swept when the stream goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from shunter.flow.graph.instructions import Instruction
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.chains import Chain, is_one_file
from shunter.flow.runners.spark.batch.envelopes import (
    CurrentEpoch,
    EnvelopeInbox,
    EnvelopeRow,
    Rows,
    StageTally,
    States,
    Tallies,
    rows_in,
)
from shunter.flow.runners.spark.batch.task_sinks import (
    SinkManifest,
    manifest_row,
    this_task,
)
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.runners.spark.shipping.shipped_code import ShippedCode
from shunter.flow.runners.spark.stream.ledger import Commit
from shunter.flow.runners.spark.stream.tasks import MicroBatch
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.sinks.file_sink import FileSink, StagedOutput, new_run
from shunter.flow.sinks.parts import PartFile
from shunter.flow.sinks.task_files import TaskFiles

MANIFEST = "manifest"
"""In a row's place for the kind of its events: it holds what a task has written."""


def is_written_by_tasks(stage: Stage) -> bool:
    """True if a stream's sink is written by tasks; what is one file grows on the driver."""
    return isinstance(stage.what, FileSink) and not is_one_file(stage)


@dataclass
class WriteEvents:
    """Called by Spark with rows for a sink; writes the events, and passes on what else there is.

    `shipped` holds the types of events. `batch` is the number of the micro-batch.
    """

    name: str
    shipped: ShippedCode
    files: TaskFiles
    edge: int
    batch: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.name):
            codec = EventCodec(self.shipped.opened())
            number, attempt = this_task()
            writer = self.files.writer(number, f"{self.batch}-{attempt}-{secrets.token_hex(4)}")
            rows, taken = Rows(), 0
            try:
                for batch in batches:
                    for row in rows_in(batch):
                        if row.is_instruction:
                            rows.append(row)
                        else:
                            events = codec.decode(row.kind, row.body)
                            writer.write(events)
                            taken += len(events)
                parts = writer.finish()
            except BaseException:
                writer.abandon()
                raise
            tallies: Tallies = {f"{self.name}@{number}": {self.name: StageTally(taken)}}
            manifest = manifest_row(0, number, SinkManifest(parts, tallies))
            rows.append(manifest._replace(edge=self.edge, kind=MANIFEST))
            yield rows.batch()


class StreamFilesFeed:
    """The files of one sink, open at the last commit."""

    def __init__(self, types: Mapping[str, type], chain: Chain, last: Commit | None) -> None:
        stage = chain.stages[0]
        self.name, self._sink = stage.name, stage.what
        self._worker = f"{stage.name}.files"
        self._codec = EventCodec(types)
        self.tallies: Tallies = {}
        self.states: States = {}
        saved = None if last is None else last.position(self._worker)
        run, shown, columns, parts = saved or (new_run(), 0, b"", [])
        self._shown: int = shown
        self._columns: bytes = columns
        self._parts = msgspec.convert(parts, list[PartFile])
        self._output: StagedOutput = self._sink.resumed(run, self._parts, is_new=saved is None)
        self._run: str = run

    def files(self) -> TaskFiles:
        """Return what the tasks of the next batch need."""
        return replace(self._output.task, columns=self._columns or self._output.task.columns)

    def take(self, rows: Mapping[int, Sequence[EnvelopeRow]], batch: MicroBatch) -> dict[str, Any]:
        """Note what tasks have written; return where the sink stands then."""
        self.tallies, self.states, self._parts = {}, {}, []
        for some in rows.values():
            self._hear([row for row in some if row.kind != MANIFEST], batch.ending)
            for row in some:
                if row.kind == MANIFEST:
                    manifest = msgspec.msgpack.decode(row.body, type=SinkManifest)
                    self._parts += manifest.parts
                    self.tallies |= manifest.tallies
        self._columns = self._output.columns_with(self._parts, self._columns)
        return {self._worker: [self._run, self._shown, self._columns, self._parts]}

    def _hear(self, rows: Sequence[EnvelopeRow], ending: Instruction) -> None:
        """Take note of what the workers before the sink have told with their instructions."""
        inbox = EnvelopeInbox(rows, self._codec, CurrentEpoch(), last=ending)
        while inbox.take(0) is not ending:
            pass
        self.tallies |= inbox.tallies
        self.states |= inbox.states

    def publish(self) -> None:
        """Show what the last commit has; may be done again."""
        if self._parts:
            self._output.show(self._parts, is_first=not self._shown, version=self._shown + 1)
            self._shown += 1
        self._parts = []

    def close(self) -> None:
        self.publish()
        if not self._shown:
            self._output.show([], is_first=True, version=1)
        self._output.end()

    def abandon(self) -> None:
        self._output.let_go()
