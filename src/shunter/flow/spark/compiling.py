"""A flow as Spark's DataFrames: for each chain the rows that go into it, and those it makes.

Rows for the workers of a chain are brought into one partition each, in the order of `envelopes`.
What several chains read is kept, so that it is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from shunter.flow.graph import Flow, Stage
from shunter.flow.spark.chains import Chain, chains_of, senders_of
from shunter.flow.spark.envelopes import COLUMNS, ORDER
from shunter.flow.spark.session import pyspark
from shunter.flow.spark.sources import DataFrameSource
from shunter.flow.spark.tasks import chain_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class CompiledFlow:
    """A flow on so many nodes; nothing runs before somebody reads what goes into a sink."""

    def __init__(
        self, flow: Flow, session: SparkSession, nodes: int, *, keeps: bool = True
    ) -> None:
        self._flow, self._session, self._keeps = flow, session, keeps
        self._chains = chains_of(flow, nodes, is_parallel=_is_frame)
        self._outputs: dict[Chain, DataFrame] = {}
        self._kept: list[DataFrame] = []

    @property
    def sinks(self) -> list[Chain]:
        return [chain for chain in self._chains if chain.is_sink]

    def compile(self) -> None:
        """Make the DataFrame of each chain's output."""
        ranks = self._ranks()
        sources = sum(len(chain.workers) for chain in self._chains if chain.is_source)
        for chain in self._chains:
            if not chain.is_sink:
                task = chain_task(self._flow, chain, ranks, sources)
                self._outputs[chain] = self._read_once(
                    chain, self.input_of(chain).mapInArrow(task, COLUMNS)
                )

    def input_of(self, chain: Chain) -> DataFrame:
        """Return what goes into a chain; those before it must be compiled."""
        first = chain.stages[0].what
        if isinstance(first, DataFrameSource):
            return first.frame(self._session)
        if chain.is_source:
            return self._session.range(0, chain.count, 1, chain.count)
        return self._gathered(chain)

    def forget(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

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
        parts = [
            self._outputs[sender].where(functions.col("edge").isin(*chain.takes_from(sender)))
            for sender in senders
        ]
        rows = reduce(lambda one, other: one.union(other), parts)
        if self._is_in_place(chain, senders):
            return rows
        return rows.repartitionById(chain.count, functions.col("node")).sortWithinPartitions(*ORDER)

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
        )


def _is_frame(stage: Stage) -> bool:
    return isinstance(stage.what, DataFrameSource)
