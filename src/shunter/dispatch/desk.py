"""What a dispatcher believes: who is connected, who runs what, which types may be waiting.

Only a hint. The store is the truth, and every write that follows from the desk is compared
with it; a dispatcher that loses its desk loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.arrivals import WorkerLink
from shunter.dispatch.roster import Opening, Roster, Types
from shunter.model.job import Job, Status
from shunter.model.worker import PLAIN_PREFIX, UDP_PREFIX, Worker, WorkerKind
from shunter.wire.messages import Held


class Member(Struct):
    """A worker that is connected to this dispatcher."""

    worker: Worker
    link: WorkerLink
    heard_at: float
    full_until: float = 0.0
    unreachable_since: float | None = None
    strange: dict[Held, float] = {}  # runs it has that we don't know of, and since when it says so


class Desk:
    """The memory of one dispatcher. Bounded by what its workers may hold."""

    def __init__(self, first_place: int = 0, *, dispatcher_id: str = "") -> None:
        self._id = dispatcher_id
        self.roster = Roster(first_place)
        self.members: dict[str, Member] = {}
        self.running: dict[str, Job] = {}
        self.claimed: dict[str, Job] = {}
        self.waiting: set[str] = set()

    def adopt(self, job: Job) -> None:
        """Note a job in progress, without its payload."""
        worker_id = job.execution.worker_id
        assert job.status is Status.IN_PROGRESS
        assert worker_id is not None
        self.running[job.id] = replace(job, payload=None) if job.payload is not None else job
        self.roster.hold(worker_id, job.id, is_foreign=self._is_foreign(job, worker_id))

    def _is_foreign(self, job: Job, worker_id: str) -> bool:
        """Tell whether a job came to a worker of ours from another dispatcher.

        Such a worker divides its window, and tells each dispatcher how much of it is its own.
        """
        member = self.members.get(worker_id)
        is_divided = member is not None and member.worker.kind is WorkerKind.FULL
        return is_divided and job.dispatcher is not None and job.dispatcher.id != self._id

    def forget(self, job_id: str) -> None:
        """Drop what is believed about a job, whoever ran it."""
        job = self.running.pop(job_id, None)
        if job is not None and job.execution.worker_id is not None:
            self.roster.drop(job.execution.worker_id, job_id)

    def remove(self, worker_id: str) -> None:
        """Forget a worker, and with it what it ran."""
        self.members.pop(worker_id, None)
        for job_id in self.roster.remove(worker_id):
            self.running.pop(job_id, None)

    def is_stoppable(self, worker_id: str | None) -> bool:
        """Tell whether a worker can be asked to stop a job."""
        if worker_id is None:
            return False
        if member := self.members.get(worker_id):
            return member.worker.kind.is_told_to_stop
        return not worker_id.startswith((PLAIN_PREFIX, UDP_PREFIX))

    def wanted(self) -> Iterator[tuple[Opening, Types]]:
        """Yield where there is room, with the types of which jobs may be waiting for it."""
        for opening in self.roster.openings():
            if types := opening.types & self.waiting:
                under_way = sum(job.type in opening.types for job in self.claimed.values())
                if opening.free > under_way:
                    yield replace(opening, free=opening.free - under_way), types
