"""Which stages of a flow work key by key on Spark, and how the chains around them know. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.reach import works_key_by_key
from shunter.flow.graph.routes import FieldKey
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.chains import Chain
from shunter.flow.runners.spark.batch.file_splits import SplitSource
from shunter.flow.runners.spark.batch.keyed_chunks import KeyedEdge, KeyedWork
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.silence import is_silent
from shunter.flow.sources import ParquetRows

STATE_BYTES = 128 << 20
"""How much memory the states of a task may take before some of them go to disk."""


class KeyedPlan:
    """Decides for all chains of a flow; each has a count of its nodes."""

    def __init__(self, flow: FlowGraph, chains: Sequence[Chain]) -> None:
        counts = {chain.stages[0].name: chain.count for chain in chains}
        self._edges = {
            edge.number: KeyedEdge(
                edge.number, edge.route, counts[stage.name], _type(edge.upstream)
            )
            for stage in flow.stages
            if stage.name in counts and works_key_by_key(stage, is_silent)
            for edge in stage.inputs
        }

    def works_key_by_key(self, chain: Chain) -> bool:
        return bool(self._into(chain))

    def work_of(self, chain: Chain) -> KeyedWork:
        out = {number: self._edges[number] for number in chain.edges if number in self._edges}
        return KeyedWork(
            self._into(chain), out, _gives_columns(chain, out), state_bytes=STATE_BYTES
        )

    def _into(self, chain: Chain) -> dict[int, KeyedEdge]:
        numbers = (edge.number for edge in chain.stages[0].inputs)
        return {number: self._edges[number] for number in numbers if number in self._edges}


def _type(stage: Stage) -> type | None:
    kind: type | None = getattr(stage.what, "event_type", None)
    return kind


def _gives_columns(chain: Chain, out: Mapping[int, KeyedEdge]) -> bool:
    """True if all that a chain does is to read columns, for stages whose key is one of them."""
    [first, *rest] = chain.stages
    what = first.what.source if isinstance(first.what, SplitSource) else first.what
    is_columns = isinstance(what, ParquetRows) or (
        isinstance(what, DataFrameSource) and not what.results_of
    )
    return (
        not rest
        and is_columns
        and set(out) == chain.edges
        and all(isinstance(edge.route.key, FieldKey) for edge in out.values())
    )
