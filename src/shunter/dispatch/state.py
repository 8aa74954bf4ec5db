"""All that one dispatcher believes: who is connected, who runs what, which types may be waiting.

Only a hint. The store is the truth, and every write that follows from this is compared with it;
a dispatcher that loses its state loses nothing. Changed by `turn` and `settle`, by nobody else.
Times are the dispatcher's own: what others wrote is never compared with them, only watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from shunter.dispatch.arrivals import WorkerLink
from shunter.dispatch.callbacks import CallbackQueue
from shunter.dispatch.dependents import DependentsQueue
from shunter.dispatch.limit_book import LimitBook
from shunter.dispatch.roster import Opening, Roster, Types
from shunter.dispatch.rules import Rules
from shunter.dispatch.timings import Timings
from shunter.model.job import Job, Status
from shunter.model.pause import NO_PAUSES, Pauses
from shunter.model.report import Held
from shunter.model.watch import Watch
from shunter.model.worker import Worker, kind_of
from shunter.store.port import CLAIM_BYTES


class Member(Struct):
    """A worker that is connected to this dispatcher."""

    worker: Worker
    link: WorkerLink
    heard_at: float
    lists_from: float = 0.0  # before that, its lists of jobs may be old news
    full_until: float = 0.0
    unreachable_since: float | None = None
    at_most_once: frozenset[str] = frozenset()  # types whose handlers bear no second run
    blind: frozenset[str] = frozenset()  # types whose handlers can't ask for parents
    strange: dict[Held, float] = {}  # runs it has that we don't know of, and since when it says so


class DispatcherState:
    """The memory of one dispatcher. Bounded by what its workers may hold."""

    def __init__(self, dispatcher_id: str, rules: Rules, *, jitter: Callable[[], float]) -> None:
        self.id = dispatcher_id
        self.rules = rules
        self.jitter = jitter
        self.counters: Counter[str] = Counter()
        self.timings = Timings()
        self.callbacks = CallbackQueue(rules.callbacks, jitter=jitter, counters=self.counters)
        self.dependents = DependentsQueue()
        first_place = crc32(dispatcher_id.encode())
        self.roster = Roster(first_place=first_place)
        self.members: dict[str, Member] = {}
        self.running: dict[str, Job] = {}
        self.claimed: dict[str, Job] = {}
        self.waiting: set[str] = set()
        self.limits = LimitBook(first_place=first_place)
        self.clogged: set[str] = set()  # gateways that have as much to send as they may keep
        self.pauses = NO_PAUSES
        self.hooked: frozenset[str] = frozenset()  # types whose final failures hooks are told
        self._turns: dict[str, int] = {}  # which turn each type had last
        self._last_turn = 0
        self.heartbeats = Watch()  # of workers, as the store has them
        self.expiries = Watch()  # of what other dispatchers have started or claimed
        self.others: frozenset[str] = frozenset()  # dispatchers that were here a moment ago
        self.most_ahead: float | None = None  # how much our clock may be ahead of any other's
        self.skews: dict[str, float] = {}  # by how much our clock is ahead of other dispatchers'
        self._adopted: dict[str, tuple[int, float]] = {}  # attempts, and since when we know

    def adopt(self, job: Job, *, now: float) -> None:
        """Note a job in progress, without its payload."""
        worker_id = job.execution.worker_id
        assert job.status is Status.IN_PROGRESS
        assert worker_id is not None
        before = self.running.get(job.id)
        if before is not None and before.execution.worker_id != worker_id:
            self.forget(job.id)  # a job has one place
        self.running[job.id] = (
            replace(job, payload=None, parents=b"") if job.payload is not None else job
        )
        if not self.is_ours(job):
            self.know_since(job, self._begun(job, now))
        self.roster.hold(worker_id, job.id, is_foreign=self._is_foreign(job, worker_id))

    def shows_parents(self, job: Job) -> bool:
        """True if a job's handler may ask how its parents ended; also while nobody has it yet."""
        member = self.members.get(job.execution.worker_id or "")
        return member is None or job.type not in member.blind

    def is_ours(self, job: Job) -> bool:
        """True if this dispatcher started or claimed the job: its times are by our clock."""
        return job.dispatcher is not None and job.dispatcher.id == self.id

    def skew_of(self, job: Job) -> float | None:
        """Return by how much our clock is ahead of that by which the job was started."""
        return None if job.dispatcher is None else self.skews.get(job.dispatcher.id)

    def known_since(self, job: Job) -> float:
        """Return since when, by our clock, the run of a job in `running` has been going on."""
        attempt, since = self._adopted.get(job.id, (0, 0.0))
        return since if attempt == job.attempt else job.execution.given_at or 0.0

    def _begun(self, job: Job, now: float) -> float:
        """Return when a run of another dispatcher began, by our clock, or at the latest."""
        skew, given_at = self.skew_of(job), job.execution.given_at
        return now if skew is None or given_at is None else min(now, given_at + skew)

    def know_since(self, job: Job, now: float) -> None:
        """Note when a run became known that was not started just then, by us."""
        if self._adopted.get(job.id, (0, 0.0))[0] != job.attempt:
            self._adopted[job.id] = (job.attempt, now)

    def _is_foreign(self, job: Job, worker_id: str) -> bool:
        """True if a job came to a worker of ours from another dispatcher.

        Such a worker divides its window, and tells each dispatcher how much of it is its own.
        """
        member = self.members.get(worker_id)
        is_divided = member is not None and member.worker.kind.traits.divides_window
        return is_divided and job.dispatcher is not None and not self.is_ours(job)

    def forget(self, job_id: str) -> None:
        """Drop what is believed about a job, whoever ran it."""
        job = self.end(job_id)
        if job is not None and job.execution.worker_id is not None:
            self.roster.drop(job.execution.worker_id, job_id)

    def forget_on(self, worker_id: str, job_id: str) -> None:
        """Drop the belief that a worker has a job; if another one has it, that stays."""
        job = self.running.get(job_id)
        if job is not None and job.execution.worker_id == worker_id:
            self.end(job_id)
        self.roster.drop(worker_id, job_id)

    def end(self, job_id: str) -> Job | None:
        """Drop a run that is over and return it; its worker's place is not touched."""
        if self._adopted:
            self._adopted.pop(job_id, None)
        return self.running.pop(job_id, None)

    def remove(self, worker_id: str) -> None:
        """Forget a worker, and with it what it ran."""
        self.members.pop(worker_id, None)
        for job_id in self.roster.remove(worker_id):
            self.forget_on(worker_id, job_id)

    def heed(self, pauses: Pauses) -> None:
        """Go by these pauses from now on.

        A type that is paused is one of which jobs may be waiting: so new ones go into the queue.
        """
        self.pauses = pauses
        self.waiting |= pauses.types
        for member in self.members.values():
            self.heed_drain(member.worker)

    def heed_drain(self, worker: Worker) -> None:
        """Give a worker nothing new if it is drained, and jobs again if it no longer is."""
        is_drained = self.pauses.drains(worker)
        if self.roster.drain(worker.id, is_drained=is_drained) and not is_drained:
            self.expect_waiting(worker)

    def expect_waiting(self, worker: Worker) -> None:
        """Note that jobs may be waiting for a worker on the roster, of all types that it does."""
        if (capacity := self.roster.capacity_of(worker.id)) is not None:
            self.waiting |= capacity.types

    def is_stoppable(self, worker_id: str | None) -> bool:
        """True if a worker can be asked to stop a job."""
        if worker_id is None:
            return False
        member = self.members.get(worker_id)
        return (kind_of(worker_id) if member is None else member.worker.kind).traits.can_stop

    def by_turn(self, types: Iterable[str]) -> tuple[str, ...]:
        """Return types in the order in which it is their turn: who waited longest comes first."""
        return tuple(sorted(types, key=lambda kind: (self._turns.get(kind, 0), kind)))

    def had_turn(self, job_type: str) -> None:
        """Note that a waiting job of this type was taken."""
        self._last_turn += 1
        self._turns[job_type] = self._last_turn

    @property
    def has_work(self) -> bool:
        """True if a turn would do something though nothing arrives."""
        is_telling = self.callbacks.has_work or self.dependents.has_work
        return bool(self.claimed) or is_telling or any(self.wanted())

    @property
    def has_memory(self) -> bool:
        """True if the payloads that are here leave room for more."""
        claimed = sum(len(job.payload or b"") for job in self.claimed.values())
        return not self.clogged and claimed < CLAIM_BYTES

    def wanted(self) -> Iterator[tuple[Opening, Types]]:
        """Yield where there is room, with the types of which jobs may be waiting for it."""
        if not self.waiting or not self.has_memory:
            return
        for opening in self.roster.openings():
            if types := (opening.types & self.waiting) - self.pauses.types:
                under_way = sum(job.type in opening.types for job in self.claimed.values())
                if opening.free > under_way:
                    yield replace(opening, free=opening.free - under_way), types
