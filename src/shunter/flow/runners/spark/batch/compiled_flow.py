"""A flow as Spark's DataFrames: for each chain the rows that go into it, and those it makes.

Rows for the workers of a chain are brought into one partition each, in the order of `envelopes`.
What several chains read is kept, so that it is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from shunter.errors import FlowError
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.chains import (
    Chain,
    chains_of,
    is_one_file,
    senders_of,
    without_letters,
)
from shunter.flow.runners.spark.batch.envelopes import COLUMNS, ORDER
from shunter.flow.runners.spark.batch.file_splits import SplitSource, split_sources, with_splits
from shunter.flow.runners.spark.batch.keyed_plan import KeyedPlan
from shunter.flow.runners.spark.batch.task_sinks import MANIFEST_EDGE, is_written_by_tasks
from shunter.flow.runners.spark.batch.tasks import ChainTask, chain_task, column_sink
from shunter.flow.runners.spark.columns.column_rows import ColumnSink, EnvelopesToColumns
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.session.kinds import is_connect, pyspark
from shunter.flow.runners.spark.shipping.shipped_code import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shunter.flow.sinks.task_files import TaskFiles


class CompiledFlow:
    """A flow on so many nodes; nothing runs before somebody reads what goes into a sink."""

    has_whole_keys = True
    """Whether all events of a key are there, as in a run to the end."""

    def __init__(
        self, flow: FlowGraph, session: SparkSession, nodes: int, *, keeps: bool = True
    ) -> None:
        self._flow, self._session, self._keeps = flow, session, keeps
        splits = self._splits_of(flow, nodes)
        parallel = {name for name, split in splits.items() if len(split) > 1}
        chains = self._chains_on(nodes, parallel) if flow.edges else []
        cut = [with_splits(chain, splits) for chain in chains]
        self._chains = [without_letters(c) if self._is_fed(c) else c for c in cut]
        self._keyed = KeyedPlan(flow, self._chains if self.has_whole_keys else [])
        self._outputs: dict[Chain, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self.files: Mapping[str, TaskFiles] = {}

    def _chains_on(self, nodes: int, parallel: Collection[str]) -> list[Chain]:
        """Return the chains; sources with these names are read by many tasks."""
        return chains_of(
            self._flow,
            nodes,
            is_parallel=lambda stage: _is_parallel(stage) or stage.name in parallel,
            is_written_by_tasks=is_written_by_tasks,
        )

    @property
    def sinks(self) -> list[Chain]:
        """The sinks that are fed on the driver, but for those that stand for columns."""
        fed = [chain for chain in self._chains if self._is_fed(chain)]
        return [chain for chain in fed if not isinstance(chain.stages[0].what, ColumnSink)]

    @property
    def written(self) -> list[Chain]:
        """The chains that end in a sink which tasks write; `files` has where, by its name."""
        return [c for c in self._chains if c.sink is not None and is_written_by_tasks(c.sink)]

    @staticmethod
    def _is_fed(chain: Chain) -> bool:
        return chain.is_sink and not is_written_by_tasks(chain.stages[0])

    def compile(self) -> None:
        """Make the DataFrame of each chain's output."""
        for chain in self._chains:
            if not self._is_fed(chain):
                self._output_of(chain)

    def manifests(self, chain: Chain) -> DataFrame:
        """Return what the tasks of a chain tell that ends in a sink."""
        column = pyspark("pyspark.sql.functions").col
        return self._output_of(chain).where(column("edge") == MANIFEST_EDGE).select("body")

    def columns_into(self, stage: Stage) -> DataFrame:
        """Return the columns that go into a stage which is a ColumnSink."""
        [chain] = [each for each in self._chains if each.stages[0] is stage]
        first, *rest = senders_of(chain, self._chains)
        if not rest and column_sink(first):
            return self._output_of(first)
        what = stage.what
        sent = shipped((self._flow.types, what), users_modules(self._flow), what=stage.name)
        return self.input_of(chain).mapInArrow(EnvelopesToColumns(stage.name, sent), what.fields)

    def _output_of(self, chain: Chain) -> DataFrame:
        """Return what comes out of a chain: envelopes, or columns."""
        if chain not in self._outputs:
            columns = column_sink(chain)
            made = self.input_of(chain).mapInArrow(
                self._task(chain), COLUMNS if columns is None else columns.fields
            )
            self._outputs[chain] = self._read_once(chain, made)
        return self._outputs[chain]

    def input_of(self, chain: Chain) -> DataFrame:
        """Return what goes into a chain."""
        first = chain.stages[0].what
        if isinstance(first, DataFrameSource):
            return self._own(first.frame(self._session), chain.stages[0])
        if chain.is_source:
            count = len(first) if isinstance(first, SplitSource) else chain.count
            return self._session.range(0, count, 1, count)
        return self._gathered(chain)

    def _splits_of(self, flow: FlowGraph, nodes: int) -> dict[str, SplitSource]:
        """Return the sources that are read by many tasks."""
        return split_sources(flow, self._session, nodes)

    def _own(self, frame: DataFrame, stage: Stage) -> DataFrame:
        """Refuse a DataFrame that was made by another session than the one that runs this."""
        if is_connect(self._session) and frame.sparkSession is not self._session:
            raise FlowError(
                "its DataFrame was made in another session, and a Spark Connect server has only "
                "what this one made there; make it of the session that the function gets",
                stage=stage.name,
                place=str(stage.where),
            )
        return frame

    def forget(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    def _task(self, chain: Chain) -> ChainTask:
        """Return what is done to the input of a chain."""
        keyed = self._keyed.work_of(chain)
        return chain_task(self._flow, chain, self._ranks, self._sources, self.files, keyed)

    @property
    def _sources(self) -> int:
        """How many workers all sources have."""
        return sum(len(chain.workers) for chain in self._chains if chain.is_source)

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """Number all workers, those of sources first."""
        ordered = sorted(self._chains, key=lambda chain: not chain.is_source)
        workers = (worker.id for chain in ordered for worker in chain.workers)
        return {worker_id: rank for rank, worker_id in enumerate(workers)}

    def _read_once(self, chain: Chain, output: DataFrame) -> DataFrame:
        readers = sum(1 for other in self._chains if other.takes_from(chain))
        readers += chain.sink is not None
        if readers < 2 or not self._keeps:
            return output
        self._kept.append(output.persist(pyspark().StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def _gathered(self, chain: Chain) -> DataFrame:
        """Bring what is sent to each worker of a chain into one partition, in its order."""
        functions = pyspark("pyspark.sql.functions")
        senders = senders_of(chain, self._chains)
        parts = [self._sent(sender, chain) for sender in senders]
        rows = reduce(lambda one, other: one.union(other), parts)
        if self._is_in_place(chain, senders):
            return rows
        placed = rows.repartitionById(chain.count, functions.col("node"))
        return placed if self._is_in_order(chain, senders) else placed.sortWithinPartitions(*ORDER)

    def _is_in_order(self, chain: Chain, senders: Sequence[Chain]) -> bool:
        """True if rows need no sorting behind a shuffle; in a batch run they do."""
        return False

    def _sent(self, sender: Chain, chain: Chain) -> DataFrame:
        """Return the rows that one chain sends to another."""
        rows, edges = self._output_of(sender), chain.takes_from(sender)
        if edges == sender.edges and sender.sink is None:
            return rows
        return rows.where(pyspark("pyspark.sql.functions").col("edge").isin(*edges))

    def _is_in_place(self, chain: Chain, senders: Sequence[Chain]) -> bool:
        """True if rows are where they belong; those for the driver are sorted on their way."""
        if self._is_fed(chain) and not isinstance(chain.stages[0].what, ColumnSink):
            return True
        if len(senders) != 1 or not chain.is_straight_behind(senders[0]):
            return False
        if self._keyed.works_key_by_key(chain):
            return False
        stage = chain.stages[0]
        is_any_task = chain.is_sink and stage.workers is None and not is_one_file(stage)
        return is_any_task or not _is_parallel(senders[0].stages[0])


def _is_parallel(stage: Stage) -> bool:
    """True if any number of tasks read a source."""
    return isinstance(stage.what, DataFrameSource | SplitSource)
