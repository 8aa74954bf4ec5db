"""What a report says, put together from the summaries that the flow's states give. Pure.

Percentiles are values that occurred: the smallest that so many per cent are not above. A worker is
busy while it runs at least one job; `jobs_at_once` is how many it ran on the average, over the
whole time that the report is about.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

MOST_INTERVALS = 60
MOST_SLICES = 100_000
MOST_ERRORS = 5

WIDTHS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
    172800, 604800,
)  # fmt: skip
"""How many seconds an interval may have: what people read easily off an axis."""


class Spread(Struct, frozen=True):
    """How long things took, in seconds."""

    p50: float
    p95: float
    max: float


class ErrorCount(Struct, frozen=True):
    """How often jobs ended with a message."""

    message: str
    count: int


class TypeReport(Struct, frozen=True):
    """The jobs of one type. `repeated` are runs beyond the first of each."""

    type: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    repeated: int
    waiting: Spread | None
    run: Spread | None
    errors: tuple[ErrorCount, ...]


class Interval(Struct, frozen=True):
    """How many jobs ended between `start` and the next interval."""

    start: float
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class WorkerReport(Struct, frozen=True):
    """What one worker did. `load` has the jobs at once for each interval of the throughput."""

    worker: str
    jobs: int
    busy_seconds: float
    busy_share: float
    jobs_at_once: float
    load: tuple[float, ...]


class HistoryReport(Struct, frozen=True):
    """All of it. `first` is when the first of the jobs started or ended, `last` the last end."""

    made: float
    since: float | None
    first: float | None
    last: float | None
    jobs: int
    completed: int
    failed: int
    cancelled: int
    interval_seconds: int
    throughput: tuple[Interval, ...]
    types: tuple[TypeReport, ...]
    workers: tuple[WorkerReport, ...]


def assembled(
    summaries: Iterable[Mapping[str, Any]], *, made: float, since: float | None
) -> HistoryReport:
    """Make the report of what `TypeSummary`, `SliceSummary` and `WorkerSummary` have given."""
    found: dict[str, list[Mapping[str, Any]]] = {"type": [], "slice": [], "worker": []}
    for summary in summaries:
        found[summary["about"]].append(summary)
    types = sorted(map(_type_report, found["type"]), key=lambda each: (-each.jobs, each.type))
    first = min((each["first"] for each in found["slice"]), default=None)
    last = max((each["last"] for each in found["slice"]), default=None)
    width, starts = _intervals(first, last, found["slice"])
    workers = [_worker_report(each, starts, width, first, last) for each in found["worker"]]
    return HistoryReport(
        made=made,
        since=since,
        first=first,
        last=last,
        jobs=sum(each.jobs for each in types),
        completed=sum(each.completed for each in types),
        failed=sum(each.failed for each in types),
        cancelled=sum(each.cancelled for each in types),
        interval_seconds=width,
        throughput=tuple(_throughput(found["slice"], starts, width)),
        types=tuple(types),
        workers=tuple(sorted(workers, key=lambda each: (-each.busy_seconds, each.worker))),
    )


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return the percentiles of values in any order, None if there are none."""
    if not values:
        return None
    ranked = sorted(values)
    return Spread(percentile(ranked, 50), percentile(ranked, 95), ranked[-1])


def percentile(ranked: Sequence[float], per_cent: int) -> float:
    """Return the smallest of the sorted values that so many per cent of them are not above."""
    return ranked[math.ceil(len(ranked) * per_cent / 100) - 1]


def covered(runs: Iterable[list[float]]) -> float:
    """Return for how many seconds at least one of the runs (start and end) was under way."""
    total, until = 0.0, -math.inf
    for start, end in sorted(runs):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def slice_seconds(span: float | None) -> int:
    """Return how long the slices are in which jobs are counted, for a report on such a span."""
    if span is None:
        return 60
    return next((each for each in WIDTHS if span / each <= MOST_SLICES), WIDTHS[-1])


def _type_report(found: Mapping[str, Any]) -> TypeReport:
    ranked = sorted(found["errors"].items(), key=lambda each: (-each[1], each[0]))
    return TypeReport(
        type=found["type"],
        jobs=found["completed"] + found["failed"] + found["cancelled"],
        completed=found["completed"],
        failed=found["failed"],
        cancelled=found["cancelled"],
        repeated=found["repeated"],
        waiting=spread_of(found["waiting"]),
        run=spread_of(found["run"]),
        errors=tuple(ErrorCount(message, count) for message, count in ranked[:MOST_ERRORS]),
    )


def _intervals(
    first: float | None, last: float | None, slices: Sequence[Mapping[str, Any]]
) -> tuple[int, list[int]]:
    """Return how long intervals are, which is a number of whole slices, and when they begin."""
    if first is None or last is None:
        return 1, []
    shortest: int = slices[0]["seconds"]
    least = math.ceil((last - first) / MOST_INTERVALS)
    fitting = (each for each in WIDTHS if each >= least and each % shortest == 0)
    width = next(fitting, -(-least // shortest) * shortest)
    begin, end = int(first // width) * width, int(last // width) * width
    return width, list(range(begin, end + 1, width))


def _throughput(
    slices: Iterable[Mapping[str, Any]], starts: Sequence[int], width: int
) -> Iterable[Interval]:
    counts = {start: {"completed": 0, "failed": 0, "cancelled": 0} for start in starts}
    for each in slices:
        for status, count in counts[each["start"] // width * width].items():
            counts[each["start"] // width * width][status] = count + each[status]
    return (Interval(float(start), **counted) for start, counted in counts.items())


def _worker_report(
    found: Mapping[str, Any],
    starts: Sequence[int],
    width: int,
    first: float | None,
    last: float | None,
) -> WorkerReport:
    span = max((last or 0.0) - (first or 0.0), 1e-6)
    load = dict.fromkeys(starts, 0.0)
    for start, seconds in found["load"]:
        load[start // width * width] += seconds / width
    return WorkerReport(
        worker=found["worker"],
        jobs=found["jobs"],
        busy_seconds=found["busy"],
        busy_share=min(1.0, found["busy"] / span),
        jobs_at_once=found["total"] / span,
        load=tuple(load.values()),
    )
