"""A dispatcher on the in-memory store, whose workers and clients only write down what they hear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from shunter.dispatch import sweep
from shunter.dispatch.arrivals import HeartbeatReceived, Submitter, WorkerRegistered
from shunter.dispatch.dispatcher import Dispatcher
from shunter.dispatch.rules import Rules
from shunter.errors import JobError
from shunter.model.job import Job, ReplyTo
from shunter.model.report import Held, Report
from shunter.model.submission import Receipt, Submission
from shunter.model.worker import Handler, Worker, WorkerKind
from shunter.testing import MemoryStore, VirtualClock
from shunter.testing.finish import finish

CLIENT = Submitter(ReplyTo("test", b"client"))


class Recorder:
    """WorkerLink and ClientLink of everybody."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, Job]] = []
        self.cancels: list[tuple[str, Held]] = []
        self.pongs: list[tuple[str, int]] = []
        self.taken: list[tuple[str, int]] = []
        self.delivered: list[Job] = []
        self.notes: list[tuple[str, str]] = []
        self.order: list[str] = []

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        self.order.append("jobs")
        self.jobs += [(worker_id, job) for job in jobs]

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        self.cancels += [(worker_id, held) for held in jobs]

    def send_note(self, worker_id: str, text: str) -> None:
        self.notes.append((worker_id, text))

    def send_pong(self, worker_id: str, beat: int) -> None:
        self.pongs.append((worker_id, beat))

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        self.order.append("taken soon" if may_wait else "taken")
        self.taken += [(worker_id, batch) for batch in batches]

    def deliver(self, jobs: Sequence[Job]) -> None:
        self.order.append("results")
        self.delivered += jobs


class Scene:
    """One or more dispatchers over one store, and what they did."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore()
        finish(self.store.open())
        self.refused: list[JobError] = []
        self.said = Recorder()
        self.dispatcher = self.another_dispatcher("d-1")

    def another_dispatcher(
        self, name: str, *, clock_ahead: float = 0.0, **rules: Any
    ) -> Dispatcher:
        dispatcher = Dispatcher(
            self.store,
            dispatcher_id=name,
            rules=Rules(**rules),
            now=lambda: self.clock() + clock_ahead,
            jitter=lambda: 0.5,
            on_refused=lambda worker_id, error: self.refused.append(error),
        )
        dispatcher.serve_clients("test", self.said)
        return dispatcher

    def worker(
        self,
        name: str = "w-1",
        *types: str,
        slots: int = 1,
        kind: WorkerKind = WorkerKind.FULL,
        held: Iterable[Held] = (),
        at: Dispatcher | None = None,
    ) -> None:
        (at or self.dispatcher).introduce(
            self.arrival(name, *types, slots=slots, kind=kind, held=held, at=at)
        )
        self.turns(at)

    def arrival(
        self,
        name: str,
        *types: str,
        slots: int = 1,
        kind: WorkerKind = WorkerKind.FULL,
        held: Iterable[Held] = (),
        at: Dispatcher | None = None,
    ) -> WorkerRegistered:
        """A worker as it introduces itself."""
        now = (at or self.dispatcher).now()
        worker = a_worker(name, *types, slots=slots, kind=kind, now=now)
        return WorkerRegistered(worker, self.said, frozenset(held), slots, 1)

    def submit(self, *ids: str, at: Dispatcher | None = None, **fields: Any) -> list[Receipt]:
        receipts: list[Receipt] = []
        submissions = [
            Submission(job_id, **{"type": "t", "payload": b"\x01", **fields}) for job_id in ids
        ]
        (at or self.dispatcher).submit(submissions, receipts.extend, submitter=CLIENT)
        self.turns(at)
        return receipts

    def report(self, worker_id: str, *reports: Report, at: Dispatcher | None = None) -> None:
        (at or self.dispatcher).report(worker_id, reports, batch=1)
        self.turns(at)

    def beat(
        self, worker_id: str, *held: Held, window: int = 1, at: Dispatcher | None = None
    ) -> None:
        (at or self.dispatcher).beat(HeartbeatReceived(worker_id, frozenset(held), window, 9))
        self.turns(at)

    def beat_for(self, seconds: int, worker_id: str, *held: Held, **how: Any) -> None:
        """Let time pass in which a worker says every second what it has."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.beat(worker_id, *held, **how)

    def survey(self, at: Dispatcher | None = None) -> None:
        """Look at all workers of the store, as a dispatcher does every second."""
        finish(sweep.survey(at or self.dispatcher, self.said))
        self.turns(at)

    def turns(self, at: Dispatcher | None = None) -> None:
        """Take turns until nothing is left to do."""
        dispatcher = at or self.dispatcher
        for _ in range(100):
            if not dispatcher.has_work or not finish(dispatcher.turn()):
                return
        raise AssertionError("the dispatcher does not come to rest")

    def job(self, job_id: str) -> Job:
        (job,) = finish(self.store.get([job_id]))
        assert job is not None
        return job

    def runs(self) -> list[tuple[str, str]]:
        """Return which jobs were sent to whom, in order."""
        return [(worker_id, job.id) for worker_id, job in self.said.jobs]


def a_worker(
    name: str,
    *types: str,
    slots: int = 1,
    kind: WorkerKind = WorkerKind.FULL,
    now: float = 0.0,
) -> Worker:
    return Worker(
        id=name,
        kind=kind,
        hostname="",
        port=0,
        handlers=tuple(Handler(t) for t in types or ("t",)),
        max_jobs=slots,
        registered=now,
        last_pinged=now,
    )


@pytest.fixture
def scene() -> Scene:
    return Scene()
