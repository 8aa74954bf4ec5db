"""How far sources of Spark's own are behind, by what Spark tells after each batch. Pure.

Sources tell this in different ways: some by metrics, some by the offset up to which they could
have been read. Apache Spark's files tell neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from shunter.flow.runtime.report import SourceLag

METRICS = {
    "numFilesOutstanding": "files",
    "maxOffsetsBehindLatest": "events in a partition",
}
"""By the name of a metric, what it counts."""

NOT_TOLD = SourceLag()


class SourceReading(msgspec.Struct, rename="camel"):
    """What Spark says of one source: how far it was read, and how far it could have been."""

    end_offset: Any = None
    latest_offset: Any = None
    metrics: dict[str, Any] | None = None


class QueryReading(msgspec.Struct):
    """What Spark says of all sources of a query, in their order."""

    sources: list[SourceReading] = []


def lags_in(progress: str, stages: Sequence[str]) -> dict[str, SourceLag]:
    """Return how far stages are behind, given Spark's progress of a query as JSON.

    `stages` has the name of the stage for each source of the query, "" for a source of ours. A
    progress with other sources than these tells nothing.
    """
    named = sorted({name for name in stages if name})
    try:
        sources = msgspec.json.decode(progress, type=QueryReading).sources
    except msgspec.MsgspecError:
        sources = []
    if len(sources) != len(stages):
        return dict.fromkeys(named, NOT_TOLD)
    return {
        name: _together([lag_of(it) for it, of in zip(sources, stages, strict=True) if of == name])
        for name in named
    }


def lag_of(source: SourceReading) -> SourceLag:
    """Return how far one source is behind."""
    if (count := _between(source.end_offset, source.latest_offset)) is not None:
        unit = "events" if isinstance(source.end_offset, dict) else "offsets"
        return SourceLag(max(0, count), unit)
    for name, unit in METRICS.items():
        if (count := _number((source.metrics or {}).get(name))) is not None:
            return SourceLag(count, unit)
    return NOT_TOLD


def _between(end: Any, latest: Any) -> int | None:
    """Return the difference of two offsets: numbers, or numbers by topic and partition."""
    if type(end) is int and type(latest) is int:
        return latest - end
    ends, latests = _partitions(end), _partitions(latest)
    if ends is None or latests is None:
        return None
    return sum(at - ends.get(where, 0) for where, at in latests.items())


def _partitions(offset: Any) -> dict[tuple[str, str], int] | None:
    """Return an offset of Kafka's by topic and partition; None if it is another one's."""
    if not isinstance(offset, dict) or not offset:
        return None
    found = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, dict):
            return None
        for partition, at in partitions.items():
            if type(at) is not int:
                return None
            found[topic, partition] = at
    return found


def _number(metric: Any) -> int | None:
    try:
        value = float(metric)
    except (TypeError, ValueError):
        return None
    return int(value) if isfinite(value) and value >= 0 else None


def _together(lags: Sequence[SourceLag]) -> SourceLag:
    """Return the lag of a stage that reads several sources, if all tell it alike."""
    counts, units = [it.count for it in lags if it.count is not None], {it.unit for it in lags}
    if len(counts) < len(lags) or len(units) != 1:
        return NOT_TOLD
    return SourceLag(sum(counts), units.pop())
