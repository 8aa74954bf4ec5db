"""What is shown of workers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from shunter.model.pause import Pauses
from shunter.model.worker import Worker, WorkerKind

PROTOCOLS = {
    WorkerKind.FULL: "ZeroMQ",
    WorkerKind.PLAIN: "ZeroMQ, plain",
    WorkerKind.HTTP: "HTTP",
    WorkerKind.UDP: "UDP",
}
SHOWN_JOBS = 8
SHOWN_TYPES = 12
MOST_ROWS = 500


class WorkerLine(Struct, frozen=True):
    """One worker: what it may hold and does, and whether it gets anything new."""

    id: str
    state: str
    protocol: str
    address: str
    version: str
    slots: int
    held: int
    jobs: tuple[str, ...]
    types: tuple[str, ...]
    more_types: int
    last_word: float
    registered: float
    last_error: str
    is_drained: bool
    is_drained_itself: bool


_ORDER = {"alive": 0, "untried": 1, "resigned": 2, "dead": 3}


def worker_rows(workers: Iterable[Worker], pauses: Pauses) -> list[WorkerLine]:
    """Return workers, those that are here first."""
    rows = [_row(worker.shown, pauses) for worker in workers]
    rows.sort(key=lambda it: (_ORDER.get(it.state, 9), it.id))
    return rows[:MOST_ROWS]


def _row(worker: Worker, pauses: Pauses) -> WorkerLine:
    types = [handler.type for handler in worker.handlers]
    return WorkerLine(
        worker.id,
        worker.state,
        PROTOCOLS[worker.kind],
        f"{worker.hostname}:{worker.port}" if worker.port else worker.hostname,
        worker.version,
        worker.max_jobs,
        len(worker.jobs),
        worker.jobs[:SHOWN_JOBS],
        tuple(types[:SHOWN_TYPES]),
        max(0, len(types) - SHOWN_TYPES),
        worker.answered or worker.last_pinged,
        worker.registered,
        worker.last_error,
        pauses.drains(worker),
        worker.id in pauses.workers,
    )
