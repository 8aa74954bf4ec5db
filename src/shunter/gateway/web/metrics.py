"""What a dispatcher counts, as text for Prometheus. Pure.

The age of the oldest waiting job is not among it: the store has no cheap way to tell it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from shunter.model.job import Status
from shunter.model.worker import Worker
from shunter.store.port import Backlog

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

WORKER_STATES = ("alive", "resigned", "dead")

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
    "submissions_refused": "Submissions that were refused.",
    "reports_refused": "Results that were refused: stale, late, or not the reporter's.",
    "writes_refused": "Writes that lost a compare-and-swap.",
    "results_undelivered": "Results whose client was away.",
    "store_failures": "Times that the store failed and was asked again.",
}
"""Counters that are shown also while they are 0. Others are shown once they have counted."""

_REFUSED = "refused_"


class Metric(Struct, frozen=True):
    """One metric: its values by their labels."""

    name: str
    kind: str
    help: str
    values: tuple[tuple[dict[str, str], float], ...]


def metrics(
    backlog: Iterable[Backlog],
    workers: Iterable[Worker],
    counters: Mapping[str, int],
    *,
    connected: int,
) -> list[Metric]:
    """Gather all that is shown; counters are this dispatcher's, all else is the store's."""
    entries = list(backlog)
    waiting = [entry for entry in entries if entry.status is Status.QUEUED]
    states = Counter(worker.state for worker in workers)
    return [
        Metric(
            "shunter_queue_length",
            "gauge",
            "Jobs that wait, by type.",
            tuple(({"type": entry.type}, entry.count) for entry in waiting),
        ),
        Metric(
            "shunter_jobs",
            "gauge",
            "Jobs in the store, by type and status.",
            tuple(
                ({"type": entry.type, "status": entry.status.name.lower()}, entry.count)
                for entry in entries
            ),
        ),
        Metric(
            "shunter_workers",
            "gauge",
            "Workers in the store, by state.",
            tuple(({"state": state}, states[state]) for state in WORKER_STATES),
        ),
        Metric(
            "shunter_workers_connected",
            "gauge",
            "Workers that are connected to this dispatcher.",
            (({}, connected),),
        ),
        *_counted(counters),
    ]


def _counted(counters: Mapping[str, int]) -> Iterable[Metric]:
    others = {
        name: f"This dispatcher's counter {name}."
        for name in sorted(counters)
        if name not in COUNTERS and not name.startswith(_REFUSED)
    }
    for name, meaning in (COUNTERS | others).items():
        safe = re.sub(r"\W", "_", name, flags=re.ASCII)
        yield Metric(f"shunter_{safe}_total", "counter", meaning, (({}, counters.get(name, 0)),))
    refused = {name for name in counters if name.startswith(_REFUSED)}
    yield Metric(
        "shunter_refused_total",
        "counter",
        "Bad input, by what was wrong with it.",
        tuple(
            ({"reason": name.removeprefix(_REFUSED)}, counters[name]) for name in sorted(refused)
        ),
    )


def as_text(shown: Iterable[Metric]) -> str:
    """Write metrics the way Prometheus reads them."""
    lines = []
    for metric in shown:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.values:
            written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{written}}} {value}" if written else
                         f"{metric.name} {value}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
