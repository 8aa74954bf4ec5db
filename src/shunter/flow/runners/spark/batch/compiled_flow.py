"""A flow as Spark's DataFrames: for each chain the rows that go into it, and those it makes.

Rows for the workers of a chain are brought into one partition each, in the order of `envelopes`.
What several chains read is kept, so that it is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from shunter.errors import FlowError
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.chains import Chain, chains_of, senders_of
from shunter.flow.runners.spark.batch.envelopes import COLUMNS, ORDER
from shunter.flow.runners.spark.batch.keyed_plan import KeyedPlan
from shunter.flow.runners.spark.batch.tasks import ChainTask, chain_task, column_sink
from shunter.flow.runners.spark.columns.column_rows import ColumnSink, EnvelopesToColumns
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.session.kinds import is_connect, pyspark
from shunter.flow.runners.spark.shipping.shipped_code import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class CompiledFlow:
    """A flow on so many nodes; nothing runs before somebody reads what goes into a sink."""

    has_whole_keys = True
    """Whether all events of a key are there, as in a run to the end."""

    def __init__(
        self, flow: FlowGraph, session: SparkSession, nodes: int, *, keeps: bool = True
    ) -> None:
        self._flow, self._session, self._keeps = flow, session, keeps
        self._chains = chains_of(flow, nodes, is_parallel=_is_frame) if flow.edges else []
        self._keyed = KeyedPlan(flow, self._chains if self.has_whole_keys else [])
        self._outputs: dict[Chain, DataFrame] = {}
        self._kept: list[DataFrame] = []

    @property
    def sinks(self) -> list[Chain]:
        """The chains that are sinks, but for those that stand for stages of Spark's own."""
        chains = [chain for chain in self._chains if chain.is_sink]
        return [chain for chain in chains if not isinstance(chain.stages[0].what, ColumnSink)]

    def compile(self) -> None:
        """Make the DataFrame of each chain's output."""
        for chain in self._chains:
            if not chain.is_sink:
                self._output_of(chain)

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
            return self._session.range(0, chain.count, 1, chain.count)
        return self._gathered(chain)

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
        return chain_task(self._flow, chain, self._ranks, self._sources, keyed)

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
        readers = [other for other in self._chains if other.takes_from(chain)]
        if len(readers) < 2 or not self._keeps:
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
        """Tell whether rows need no sorting behind a shuffle; in a batch run they do."""
        return False

    def _sent(self, sender: Chain, chain: Chain) -> DataFrame:
        """Return the rows that one chain sends to another."""
        rows, edges = self._output_of(sender), chain.takes_from(sender)
        if edges == sender.edges:
            return rows
        return rows.where(pyspark("pyspark.sql.functions").col("edge").isin(*edges))

    def _is_in_place(self, chain: Chain, senders: Sequence[Chain]) -> bool:
        """Tell whether rows are where they belong.

        A sink's partitions are read one after the other, and a shuffle before it has all of them
        computed at once.
        """
        return (
            len(senders) == 1
            and not _is_frame(senders[0].stages[0])
            and chain.is_straight_behind(senders[0])
            and (chain.count == 1 or not chain.is_sink)
            and not self._keyed.works_key_by_key(chain)
        )


def _is_frame(stage: Stage) -> bool:
    return isinstance(stage.what, DataFrameSource)
