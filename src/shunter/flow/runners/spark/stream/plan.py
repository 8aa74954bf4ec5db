"""A flow as a stream of Spark's: its sources as one stream of rows, and what each batch becomes.

Sources are read one partition for each of their workers, and Spark keeps how far. What goes into
sinks is brought here by one job of Spark's for each batch, so that nothing is shuffled for them.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.batch.chains import Chain, chains_of
from shunter.flow.runners.spark.batch.compiled_flow import CompiledFlow
from shunter.flow.runners.spark.batch.envelopes import (
    COLUMNS,
    LAST_EPOCH,
    ORDER,
    EnvelopeRow,
    rows_in,
)
from shunter.flow.runners.spark.batch.file_splits import SplitSource
from shunter.flow.runners.spark.batch.tasks import FRAME_SENDERS, ChainTask, chain_task
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.session.kinds import is_local, pyspark
from shunter.flow.runners.spark.shipping.shipped_code import shipped
from shunter.flow.runners.spark.stream.fitness import check_streamable, unfit
from shunter.flow.runners.spark.stream.packed_reader import RAW_EDGE, PackedReader
from shunter.flow.runners.spark.stream.source_lag import lags_in
from shunter.flow.runners.spark.stream.task_files import WriteEvents
from shunter.flow.runners.spark.stream.tasks import FramePacking, MicroBatch, MicroBatchTask
from shunter.flow.runtime.report import SourceLag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SinkRows = Mapping[str, Mapping[int, list[EnvelopeRow]]]
"""By sink and the index of its worker, what goes into it, in order."""


NO_BATCH = MicroBatch(0, is_last=False, checkpoint="", states={})
"""For stages without a state."""


class StreamPlan(CompiledFlow):
    """A flow on so many nodes. It is compiled anew for each batch; only the tasks stay.

    `folder` is where readers leave their marks.
    """

    has_whole_keys = False

    def __init__(self, flow: FlowGraph, session: SparkSession, nodes: int, folder: Path) -> None:
        check_streamable(flow)
        super().__init__(flow, session, nodes)
        self._marks = folder / "readers"
        self._tasks = {each: self._raw_task(each) for each in self._chains if not each.is_sink}
        self._read_by: list[str] = []
        self._raw: DataFrame
        self._batch: MicroBatch

    def _splits_of(self, flow: FlowGraph, nodes: int) -> dict[str, SplitSource]:
        """Return none: a stream is read by the workers of its sources."""
        return {}

    def _chains_on(self, nodes: int, parallel: Collection[str]) -> list[Chain]:
        return chains_of(self._flow, nodes, is_parallel=_is_frame_stage)

    @staticmethod
    def _is_fed(chain: Chain) -> bool:
        return chain.is_sink

    # ---- the stream

    def stream(self, max_events: int, name: str) -> DataFrame:
        """Return all sources as one stream; `name` is for them alone."""
        shutil.rmtree(self._marks, ignore_errors=True)
        self._marks.mkdir()
        parts = []
        self._read_by = []
        for chain in self._source_chains:
            for part in self._parts(chain, max_events, name):
                parts.append(part)
                stage = chain.stages[0].name if _is_frame(chain) else ""
                self._read_by += [stage] * _stream_count(part)
        return reduce(lambda one, other: one.union(other), parts)

    def lags(self, progress: str) -> dict[str, SourceLag]:
        """Return how far sources of Spark's own are behind, given its progress as JSON."""
        return lags_in(progress, self._read_by)

    @property
    def readers(self) -> list[str] | None:
        """The workers of sources in the order of the stream; None if some are Spark's own."""
        if any(_is_frame(chain) for chain in self._source_chains):
            return None
        return [worker.id for chain in self._source_chains for worker in chain.workers]

    def _parts(self, chain: Chain, max_events: int, name: str) -> Iterator[DataFrame]:
        stage, edge = chain.stages[0], self._edge(chain)
        task = chain_task(self._flow, chain, self._ranks, self._sources)
        if _is_frame(chain):
            frame = stage.what.frame(self._session)
            if not frame.isStreaming:
                raise unfit(stage, "its DataFrame does not stream; make it with spark.readStream")
            yield frame.mapInArrow(FramePacking(task.names, task.shipped, edge), COLUMNS)
            return
        # The module has subclasses of PySpark's classes.
        source = pyspark("shunter.flow.runners.spark.stream.data_source")
        own = self._tasks[chain]
        at_once = MicroBatchTask(own.names, own.shipped, True, NO_BATCH, chain.count)
        for worker in chain.workers:
            known_as = f"{name}-{self._ranks[worker.id]}"
            packed = PackedReader(task.shipped, worker.index, edge, max_events)
            reader = source.BatchReader(
                task.names,
                packed,
                at_once if self._is_read_whole(chain) else None,
                str(self._marks / known_as),
            )
            self._session.dataSource.register(source.data_source(known_as, reader))
            yield self._session.readStream.format(known_as).load()

    def kill_readers(self) -> None:
        """End the processes that read sources: a source, or a function behind it, may hang."""
        for mark in self._marks.iterdir():
            with suppress(OSError, ValueError):
                number = int(mark.read_text())
                if b"pyspark" in Path(f"/proc/{number}/cmdline").read_bytes():
                    os.kill(number, signal.SIGKILL)

    # ---- one batch of it

    def rows_for_sinks(self, raw: DataFrame, batch: MicroBatch) -> SinkRows:
        """Run a batch, and return what comes out of it."""
        self._raw, self._batch = raw, batch
        self._outputs.clear()
        try:
            self.compile()
            parts = [self._written(sink) for sink in self.sinks]
            table = reduce(lambda one, other: one.union(other), parts).toArrow()
        finally:
            self.forget()
        sinks = {edge: sink for sink in self.sinks for edge in self._edges_into(sink)}
        found: dict[str, dict[int, list[EnvelopeRow]]] = defaultdict(lambda: defaultdict(list))
        rows = (row for part in table.to_batches() for row in rows_in(part))
        for row in sorted(rows, key=_order):
            found[sinks[row.edge].stages[0].name][row.node].append(row)
        return found

    def _written(self, sink: Chain) -> DataFrame:
        """Return what goes into a sink; of one whose files tasks write, what these tell."""
        rows, stage = self.input_of(sink), sink.stages[0]
        if stage.name not in self.files:
            return rows
        types = shipped(self._flow.types, users_modules(self._flow), what=stage.name)
        edge = min(self._edges_into(sink))
        files = self.files[stage.name]
        task = WriteEvents(stage.name, types, files, edge, self._batch.number)
        return rows.mapInArrow(task, COLUMNS)

    def input_of(self, chain: Chain) -> DataFrame:
        if not chain.is_source:
            return super().input_of(chain)
        raw = self._read(f"edge = {self._edge(chain)}")
        if not self._batch.is_last:
            return raw
        rows = raw.union(self._ends(chain))
        return rows.repartitionById(chain.count, "node").sortWithinPartitions(*ORDER)

    def _output_of(self, chain: Chain) -> DataFrame:
        if not self._is_read_whole(chain) or chain in self._outputs:
            return super()._output_of(chain)
        ranks = ", ".join(str(self._ranks[worker.id]) for worker in chain.workers)
        rows = self._read(f"sender IN ({ranks})")
        if self._batch.is_last:
            rows = rows.union(self._ends(chain).mapInArrow(self._task(chain), COLUMNS))
        self._outputs[chain] = rows
        return rows

    def _read(self, which: str) -> DataFrame:
        """Return what was read from one of the sources."""
        return self._raw if len(self._source_chains) == 1 else self._raw.where(which)

    def _ends(self, chain: Chain) -> DataFrame:
        """Make a row for each worker of a source, that each of them comes to its end."""
        session, count = self._raw.sparkSession, chain.count
        row = (
            f"int({self._edge(chain)})", "int(id)", f"bigint({LAST_EPOCH})", "true",
            f"bigint({FRAME_SENDERS})", "bigint(0)", "''", "binary('')",
        )  # fmt: skip
        return session.range(0, count, 1, count).selectExpr(*row).toDF(*EnvelopeRow._fields)

    def _is_read_whole(self, chain: Chain) -> bool:
        """True if the whole chain is done where its source is read, which is next to it.

        On a cluster that is the driver's host, where only what must be is done.
        """
        kinds = {stage.kind for stage in chain.stages}
        return (
            is_local(self._session)
            and chain.is_source
            and not _is_frame(chain)
            and (kinds <= {StageKind.SOURCE, StageKind.MAP, StageKind.FILTER, StageKind.FLAT_MAP})
        )

    def _task(self, chain: Chain) -> Any:
        task, known = self._tasks[chain], self._batch.states
        own = {worker.id: known[worker.id] for worker in chain.workers if worker.id in known}
        batch = replace(self._batch, states=own)
        return MicroBatchTask(task.names, task.shipped, chain.is_source, batch, chain.count)

    def _raw_task(self, chain: Chain) -> ChainTask:
        """Make the task of a chain, whose source is read elsewhere."""
        if chain.is_source:
            chain = Chain(
                tuple(
                    replace(each, stages=(replace(each.stages[0], what=None), *each.stages[1:]))
                    for each in chain.workers
                )
            )
        return chain_task(self._flow, chain, self._ranks, self._sources)

    def _is_in_place(self, chain: Chain, senders: Sequence[Chain]) -> bool:
        """True if rows are where they belong; those for sinks are sorted here."""
        has_ends_apart = self._batch.is_last and any(map(self._is_read_whole, senders))
        return chain.is_sink or (
            not has_ends_apart
            and not any(map(_is_frame, senders))
            and super()._is_in_place(chain, senders)
        )

    def _is_in_order(self, chain: Chain, senders: Sequence[Chain]) -> bool:
        """True if one task sends by one edge, in order; to sort is a tenth of a small batch.

        In the last batch the end is sent by another one.
        """
        return (
            not self._batch.is_last
            and [len(sender.workers) for sender in senders] == [1]
            and len(chain.takes_from(senders[0])) == 1
            and not _is_frame(senders[0])
        )

    def _edges_into(self, sink: Chain) -> frozenset[int]:
        return frozenset().union(*(sink.takes_from(each) for each in self._chains))

    def _edge(self, chain: Chain) -> int:
        return RAW_EDGE - self._source_chains.index(chain)

    @property
    def _source_chains(self) -> list[Chain]:
        return [chain for chain in self._chains if chain.is_source]


def _stream_count(frame: DataFrame) -> int:
    """Return how many streams of Spark's a DataFrame reads."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(at).isStreaming()) for at in range(leaves.size()))


def _is_frame(chain: Chain) -> bool:
    return _is_frame_stage(chain.stages[0])


def _is_frame_stage(stage: Stage) -> bool:
    return isinstance(stage.what, DataFrameSource)


def _order(row: EnvelopeRow) -> tuple[Any, ...]:
    return row.epoch, row.is_instruction, row.edge, row.sender, row.seq
