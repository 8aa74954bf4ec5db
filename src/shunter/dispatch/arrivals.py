"""What has come in since the last turn: the dispatcher's inbox, by kind. Values only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shunter.model.job import Callback, Failure, Job, ReplyTo
from shunter.model.journal import JournalEntry
from shunter.model.limits_record import LimitsRecord
from shunter.model.pause import Pauses
from shunter.model.presence import Company
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.scope import EVERYTHING, JobScope
from shunter.model.submission import Receipt, Submission
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, ParentOutcome

Receipts = Callable[[list[Receipt]], None]


class WorkerLink(Protocol):
    """How a dispatcher speaks to workers of one gateway; calls never block and never raise."""

    def send_jobs(self, worker_id: str, jobs: Sequence[Job]) -> None:
        """Hand over jobs that are committed as started on this worker."""

    def send_cancels(self, worker_id: str, jobs: Sequence[Held]) -> None:
        """Ask the worker to stop these runs."""

    def send_taken(self, worker_id: str, batches: Sequence[int], *, may_wait: bool = False) -> None:
        """Say that these batches of reports are committed; if it may wait, with others."""

    def send_pong(self, worker_id: str, beat: int) -> None:
        """Answer a heartbeat whose renewal is committed."""

    def send_note(self, worker_id: str, text: str) -> None:
        """Have the worker log something, if its protocol has room for that."""


class ClientLink(Protocol):
    """How a dispatcher tells clients of one gateway; what can't be delivered may be fetched."""

    def deliver(self, jobs: Sequence[Job]) -> None:
        """Tell each job's `reply_to` how it ended."""


class CallbackLink(Protocol):
    """How a dispatcher has calls made; it never blocks and never raises."""

    def call(self, job: Job) -> None:
        """Call back for an ended job, once; `Dispatcher.callback_attempted` is told how it went."""


class Stored(Struct, frozen=True):
    """The job that a submission led to; not `is_new` where an equal one was there already."""

    job: Job
    is_new: bool


OnStored = Callable[[list[Stored]], None]


class Submitter(Struct, frozen=True):
    """Where a submission comes from, as its gateway knows; a client has no say in it.

    `reply_to` is who wants to hear of the job. `notice` is a callback that the gateway makes
    itself: it needs no leave, as one that a client asks for does. `namespace` is that of the
    client's key, and `sees_all` tells whether it may also rerun jobs of others.
    """

    reply_to: ReplyTo | None = None
    notice: Callback | None = None
    namespace: str = ""
    sees_all: bool = False

    @property
    def scope(self) -> JobScope:
        """The jobs that the client may rerun."""
        return JobScope(self.namespace, self.sees_all)


NOBODY = Submitter()


class Submitted(Struct, frozen=True):
    """Jobs to be stored, each with its submitter.

    `on_stored` is for who wants them back as they are stored. With `is_whole`, and where any of
    them names parents, all of them are stored or none.
    """

    submissions: Sequence[Submission]
    submitters: Sequence[Submitter]
    answer: Receipts
    on_stored: OnStored | None = None
    is_whole: bool = False


class WorkerRegistered(Struct, frozen=True):
    """A worker came, or came back; `held` is all that it still had when this was `received`."""

    worker: Worker
    link: WorkerLink
    held: frozenset[Held]
    window: int
    beat: int | None
    received: float = 0.0


class WorkerLeft(Struct, frozen=True):
    """Its gateway has lost the worker, or it resigned: it gets nothing more."""

    worker_id: str


class WorkerShut(Struct, frozen=True):
    """The worker gets nothing `until` then, or until it is heard from again."""

    worker_id: str
    until: float | None = None


class HeartbeatReceived(Struct, frozen=True):
    """A heartbeat; `held` is all that the worker had when it was `received`.

    Whichever dispatcher the jobs came from.
    """

    worker_id: str
    held: frozenset[Held]
    window: int
    beat: int
    received: float = 0.0


class Answers:
    """Collects the receipts of one request, and gives them all at once, in order."""

    def __init__(self, size: int, answer: Receipts) -> None:
        self._receipts: dict[int, Receipt] = {}
        self._size, self._answer = size, answer

    def put(self, place: int, receipt: Receipt) -> None:
        self._receipts[place] = receipt
        if len(self._receipts) == self._size:
            self._answer([self._receipts[at] for at in range(self._size)])


class CancelRequested(Struct, frozen=True):
    """Somebody wants a job stopped, and sees what is in `scope`.

    The receipt goes to its `place` in the answers.
    """

    job_id: str
    place: int
    answers: Answers
    scope: JobScope = EVERYTHING
    tries: int = 0


class KeepRequested(Struct, frozen=True):
    """A run wants these kept; the answer, one for each, comes after the commit."""

    entries: Sequence[JournalEntry]
    answer: Callable[[list[bool]], None]


class ParkStored(Struct, frozen=True):
    """The jobs that a parked one waits for are stored: it needs no alarm."""

    job_id: str


class SignalSent(Struct, frozen=True):
    """Somebody who sees what is in `scope` sends a job a signal.

    The receipt goes to its `place` in the answers.
    """

    entry: JournalEntry
    place: int
    answers: Answers
    scope: JobScope = EVERYTHING
    tries: int = 0


class Reported(Struct, frozen=True):
    worker_id: str
    report: Report
    tries: int = 0


class JobReturned(Struct, frozen=True):
    """The worker does not have the job; `blame` tells whether that counts as a loss.

    Without blame, `may_have_begun` tells whether the worker may have got as far as to start it.
    """

    worker_id: str
    held: Held
    reason: str
    blame: bool = False
    tries: int = 0
    may_have_begun: bool = False


class UnattributedResult(Struct, frozen=True):
    """A result from a worker that names no job; the store may know what it had.

    `may_be_of` tells whether nothing that the worker said speaks against a job.
    """

    worker_id: str
    result: bytes | None
    error: Failure | None = None
    may_be_of: Callable[[Job], bool] = lambda job: True
    retry: Retry | None = None


class Survey(Struct, frozen=True):
    """All workers of the store as they were at a moment, and how to reach the shared ones."""

    workers: Sequence[Worker]
    as_of: float
    link: WorkerLink


Membership = WorkerRegistered | WorkerLeft | WorkerShut
"""What changes who may be given jobs, in the order in which it happened."""


class CallbackAttempted(Struct, frozen=True):
    """A call was made; `error` says why it did not succeed, None that it did.

    `is_disputed` says that what was decided on it before met another write. `job` is the record
    that a gateway called for unasked, before the callback was due.
    """

    job_id: str
    tries: int
    error: str | None
    is_disputed: bool = False
    job: Job | None = None


class StoredJobs(Struct, frozen=True):
    """What the store said, after all arrivals were in, of jobs by id and of jobs by worker.

    And of edges: a page of those of parents that have ended, and which outcomes children have.
    """

    jobs: Mapping[str, Job] = {}
    held_by: Mapping[str, Sequence[Job]] = {}
    edges: Sequence[JobEdge] = ()
    standings: Mapping[str, frozenset[ParentOutcome]] = {}


class Arrivals:
    """One turn's worth of work."""

    def __init__(self) -> None:
        self.submitted: list[Submitted] = []
        self.reported: list[Reported] = []
        self.batches: defaultdict[str, list[int]] = defaultdict(list)
        self.returned_jobs: list[JobReturned] = []
        self.advanced: list[tuple[str, Advance]] = []
        self.membership: list[Membership] = []
        self.windows: dict[str, int] = {}  # the last word, since the worker came
        self.beaten: dict[str, HeartbeatReceived] = {}
        self.unattributed: list[UnattributedResult] = []
        self.heard: set[str] = set()
        self.resigned: list[str] = []
        self.cancel_requests: list[CancelRequested] = []
        self.keep_requests: list[KeepRequested] = []
        self.signals: list[SignalSent] = []
        self.parks_stored: list[ParkStored] = []
        self.due: dict[str, Job] = {}
        self.changed_elsewhere: list[Job] = []
        self.unplaced: list[Job] = []
        self.surveyed: list[Survey] = []
        self.callback_attempts: list[CallbackAttempted] = []
        self.due_callbacks: list[Job] = []
        self.due_dependents: list[Job] = []
        self.clogged: dict[str, bool] = {}
        self.is_queue_changed = False
        self.limits: dict[str, LimitsRecord] = {}
        self.tokens_due: set[str] = set()
        self.hooked: frozenset[str] = frozenset()
        self.company: Company | None = None
        self.pauses: Pauses | None = None

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def introduced(self) -> Iterator[WorkerRegistered]:
        """Yield the workers that came."""
        return (event for event in self.membership if isinstance(event, WorkerRegistered))

    def mentioned(self) -> set[str]:
        """Return the ids of the jobs that workers and clients speak of."""
        ids = {arrival.report.job_id for arrival in self.reported}
        ids.update(arrival.held.job_id for arrival in self.returned_jobs)
        ids.update(ask.job_id for ask in self.cancel_requests)
        ids.update(sent.entry.job_id for sent in self.signals)
        ids.update(parked.job_id for parked in self.parks_stored)
        ids.update(job.id for job in self.unplaced)
        ids.update(called.job_id for called in self.callback_attempts if called.is_disputed)
        for submitted in self.submitted:
            ids.update(
                submission.rerun_of for submission in submitted.submissions if submission.rerun_of
            )
        return ids
