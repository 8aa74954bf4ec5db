"""What a dispatcher shows to Prometheus. Counters and timings are its own, all else the store's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from shunter.dispatch.timings import Histogram, Timings
from shunter.model.job import Status
from shunter.model.worker import Worker
from shunter.store.port import Backlog

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

WORKER_STATES = ("untried", "alive", "resigned", "dead")

COUNTERS = {
    "jobs_accepted": "Jobs that were stored.",
    "jobs_claimed": "Jobs that were taken from the queue.",
    "jobs_completed": "Jobs that completed.",
    "jobs_failed": "Jobs that failed for good.",
    "jobs_cancelled": "Jobs that were cancelled.",
    "jobs_lost": "Runs whose worker was lost.",
    "jobs_expired": "Sweeps that found a job past its expiry.",
    "claims_released": "Sweeps that put a stranded claim back into the queue.",
    "workers_died": "Sweeps that found a worker's lease lapsed.",
    "callbacks_delivered": "Callbacks that were delivered.",
    "callbacks_failed": "Calls back that failed and will be tried again.",
    "callbacks_given_up": "Callbacks that failed for good.",
    "ticks_made": "Ticks of schedules that were made jobs, by this dispatcher or just before it.",
    "ticks_skipped": "Ticks that were left out because an earlier job was unfinished.",
    "ticks_missed": "Times that ticks were too old to be made up for.",
    "submissions_refused": "Submissions that were refused.",
    "reports_refused": "Results that were refused: stale, late, or not the reporter's.",
    "writes_refused": "Writes that lost a compare-and-swap.",
    "results_undelivered": "Results whose client was away.",
    "store_failures": "Times that the store failed and was asked again.",
}
"""Counters that are shown also while they are 0. Others are shown once they have counted."""

_REFUSED = "refused_"
_SWEEP = "sweeps_"


class MetricsSnapshot(Struct, frozen=True, kw_only=True):
    """All that is shown, as it was at one moment."""

    backlog: Iterable[Backlog]
    oldest: Mapping[str, float]
    workers: Iterable[Worker]
    counters: Mapping[str, int]
    timings: Timings
    connected: int
    skews: Mapping[str, float]
    now: float


def as_text(standing: MetricsSnapshot) -> bytes:
    """Write metrics the way Prometheus reads them."""
    return generate_latest(_Shown(standing))


class _Shown(Collector):
    def __init__(self, standing: MetricsSnapshot) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        it = self._standing
        yield from _jobs(list(it.backlog), it.oldest, it.now)
        workers = list(it.workers)
        yield from _workers(workers, it.connected)
        yield from _slots(workers)
        yield _clocks(it.skews)
        yield _histogram(
            "shunter_dispatch_seconds",
            "From when a job could first run until its handler began, counted when it has ended.",
            it.timings.dispatch,
        )
        yield _histogram(
            "shunter_run_seconds",
            "How long handlers took: the last run of jobs whose end this dispatcher wrote.",
            it.timings.run,
        )
        yield from _counted(it.counters)


def _jobs(backlog: list[Backlog], oldest: Mapping[str, float], now: float) -> Iterator[Metric]:
    length = GaugeMetricFamily("shunter_queue_length", "Jobs that wait, by type.", labels=["type"])
    jobs = GaugeMetricFamily(
        "shunter_jobs", "Jobs in the store, by type and status.", labels=["type", "status"]
    )
    for entry in backlog:
        jobs.add_metric([entry.type, entry.status.name.lower()], entry.count)
        if entry.status is Status.QUEUED:
            length.add_metric([entry.type], entry.count)
    age = GaugeMetricFamily(
        "shunter_queue_oldest_seconds",
        "Age of the oldest job that waits for a worker, by type.",
        labels=["type"],
    )
    for job_type, created in oldest.items():
        age.add_metric([job_type], max(0.0, now - created))
    yield from (length, jobs, age)


def _workers(workers: Iterable[Worker], connected: int) -> Iterator[Metric]:
    states = Counter(worker.state for worker in workers)
    by_state = GaugeMetricFamily(
        "shunter_workers", "Workers in the store, by state.", labels=["state"]
    )
    for state in WORKER_STATES:
        by_state.add_metric([state], states[state])
    yield by_state
    yield GaugeMetricFamily(
        "shunter_workers_connected",
        "Workers that this dispatcher can give jobs to.",
        value=connected,
    )


def _slots(workers: Iterable[Worker]) -> Iterator[Metric]:
    """Count slots of workers that are alive; jobs that wait inside a worker take none."""
    by_kind: Counter[tuple[str, str]] = Counter()
    free_for: Counter[str] = Counter()
    for worker in workers:
        if worker.state == "alive":
            used = min(len(worker.jobs), worker.max_jobs)
            free = worker.max_jobs - used
            by_kind[worker.kind.value, "used"] += used
            by_kind[worker.kind.value, "free"] += free
            for handler in worker.handlers:
                free_for[handler.type] += free
    slots = GaugeMetricFamily(
        "shunter_slots",
        "Slots of workers that are alive, by kind of worker.",
        labels=["kind", "state"],
    )
    for labels, count in sorted(by_kind.items()):
        slots.add_metric(list(labels), count)
    by_type = GaugeMetricFamily(
        "shunter_slots_free_for",
        "Free slots of workers that do a type; one that does several counts for each.",
        labels=["type"],
    )
    for job_type, count in sorted(free_for.items()):
        by_type.add_metric([job_type], count)
    yield from (slots, by_type)


def _clocks(skews: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(
        "shunter_clock_ahead_seconds",
        "By how much this dispatcher's clock is ahead of another's.",
        labels=["dispatcher"],
    )
    for dispatcher_id, skew in skews.items():
        family.add_metric([dispatcher_id], skew)
    return family


def _histogram(name: str, meaning: str, by_type: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=["type"])
    for job_type, histogram in by_type.items():
        family.add_metric([job_type], histogram.cumulative(), histogram.total)
    return family


def _counted(counters: Mapping[str, int]) -> Iterator[Metric]:
    labelled = (_REFUSED, _SWEEP)
    others = {
        name: f"This dispatcher's counter {name}."
        for name in sorted(counters)
        if name not in COUNTERS and not name.startswith(labelled)
    }
    for name, meaning in (COUNTERS | others).items():
        safe = re.sub(r"\W", "_", name, flags=re.ASCII)
        yield CounterMetricFamily(f"shunter_{safe}", meaning, value=counters.get(name, 0))
    yield _labelled(counters, _REFUSED, "reason", "Bad input, by what was wrong with it.")
    yield _labelled(counters, _SWEEP, "kind", "Rounds of what a dispatcher does on its own.")


def _labelled(counters: Mapping[str, int], prefix: str, label: str, meaning: str) -> Metric:
    family = CounterMetricFamily(f"shunter_{prefix.rstrip('_')}", meaning, labels=[label])
    for name in sorted(counters):
        if name.startswith(prefix):
            family.add_metric([name.removeprefix(prefix)], counters[name])
    return family
