"""Sources that are read by as many tasks as Spark itself would read their files by.

That is for sources that were told no number of workers. Their splits have numbers in the order of
files and positions, and a task that reads one is a sender of that rank; so what is sorted by
senders is in the order of the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.batch.chains import Chain
from shunter.flow.runtime.bad_events import blamed_on
from shunter.flow.sources.port import Source
from shunter.flow.sources.splits import SplitSizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_BYTES = "spark.sql.files.maxPartitionBytes"
OPEN_BYTES = "spark.sql.files.openCostInBytes"

_DEFAULTS = {MOST_BYTES: 128 << 20, OPEN_BYTES: 4 << 20}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


class SplitSource:
    """A source with its splits, of which a task reads one."""

    def __init__(self, source: Any, splits: Sequence[Any]) -> None:
        self.source, self._splits = source, splits

    def __len__(self) -> int:
        return len(self._splits)

    def at(self, number: int) -> Source:
        """Return the source of one split alone."""
        made: Source = self.source.at(self._splits[number])
        return made


def split_sources(flow: FlowGraph, session: SparkSession, nodes: int) -> dict[str, SplitSource]:
    """Return, by the names of their stages, the sources that can be cut into splits."""
    found = {}
    sizes: SplitSizes | None = None
    for stage in flow.stages:
        if not _is_cut(stage):
            continue
        sizes = sizes or split_sizes(session, nodes)
        with blamed_on(stage, "splits"):
            splits = stage.what.splits(sizes)
        if splits is not None:
            found[stage.name] = SplitSource(stage.what, splits or [[]])
    return found


def with_splits(chain: Chain, found: Mapping[str, SplitSource]) -> Chain:
    """Return a chain whose source knows what is to be read; one split is read by one worker."""
    first = chain.stages[0]
    split = found.get(first.name) if chain.is_source else None
    if split is None:
        return chain
    stage = replace(first, what=split if len(split) > 1 else split.at(0))
    workers = (replace(each, stages=(stage, *each.stages[1:])) for each in chain.workers)
    return Chain(tuple(workers))


def split_sizes(session: SparkSession, nodes: int) -> SplitSizes:
    """Return what this session says of the sizes of splits."""
    most, opening = (_bytes(session, name) for name in (MOST_BYTES, OPEN_BYTES))
    return SplitSizes(most, opening, nodes)


def _bytes(session: SparkSession, name: str) -> int:
    said = session.conf.get(name, None)
    found = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", (said or "").strip().lower())
    return int(found[1]) * _UNITS[found[2]] if found else _DEFAULTS[name]


def _is_cut(stage: Stage) -> bool:
    return (
        stage.kind is StageKind.SOURCE
        and stage.workers is None
        and callable(getattr(stage.what, "splits", None))
    )
