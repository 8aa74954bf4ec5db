"""One turn's decisions: what is to be committed, and what is to follow once it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from shunter.dispatch.arrivals import (
    Arrivals,
    CallbackAttempted,
    CancelRequested,
    JobReturned,
    KeepRequested,
    OnStored,
    Receipts,
    Reported,
    SignalSent,
    WorkerLink,
)
from shunter.dispatch.effects import NoteRefusal
from shunter.errors import JobRefused, UniqueKeyTaken
from shunter.model.job import Job
from shunter.model.journal import JournalEntry
from shunter.model.report import Held
from shunter.model.submission import Receipt
from shunter.model.worker import Worker
from shunter.model.workflow import JobEdge, JobGraph
from shunter.store.port import Batch, Claim

EDGES_TOLD_AT_ONCE = 10_000
"""How many edges of parents that complete in a turn its commit may tell."""


class Change(Struct, frozen=True):
    """A job as it is to be. `cause` is decided again should another write come first.

    `claimed` is the job as it was, where it is to be started on a place that may be taken.
    """

    job: Job
    cause: Reported | JobReturned | None = None
    claimed: Job | None = None


class Delivery(Struct, frozen=True):
    """An ended job with what became of its callback; without a `cause`, a call to be made.

    Or, with `is_telling`, one whose dependents have been told.
    """

    job: Job
    cause: CallbackAttempted | None = None
    is_telling: bool = False


class GraphInsertion(Struct, frozen=True):
    """A graph to be stored as a whole; its receipts follow from the store's answer."""

    graph: JobGraph
    answer: Receipts
    on_stored: OnStored | None = None

    def receipts(self, stored: Sequence[Job] | JobRefused) -> list[Receipt]:
        """Write the receipts, in the order of the submissions."""
        if isinstance(stored, JobRefused):
            return graph_refused([job.id for job in self.graph.jobs], stored)
        return [Receipt(job.id) for job in stored]


def graph_refused(job_ids: Sequence[str], refusal: JobRefused) -> list[Receipt]:
    """Say to all of a graph that nothing of it is stored, and to one of them why."""
    others = f"nothing of its graph is stored, because of another job in it: {refusal}"
    return [
        Receipt(job_id, refusal.field, str(refusal))
        if job_id == refusal.job_id
        else Receipt(job_id, "graph", others)
        for job_id in job_ids
    ]


class Insertion(Struct):
    """The jobs of one submission; `receipts` has a refusal for each that was not admitted."""

    jobs: list[Job]
    receipts: list[Receipt | None]
    answer: Receipts
    on_stored: OnStored | None = None


class Plan:
    """Filled by the planner, committed by the dispatcher, then settled."""

    def __init__(self, arrivals: Arrivals, now: float) -> None:
        self.arrivals = arrivals
        self.now = now
        self.changes: dict[str, Change] = {}
        self.deliveries: list[Delivery] = []
        self.insertions: list[Insertion] = []
        self.otherwise: dict[str, Job] = {}  # jobs on guessed places, as they were before
        self.graphs: list[GraphInsertion] = []
        self.outcomes: list[JobEdge] = []
        self.claims: list[Claim] = []
        self.renewed: set[str] = set()
        self.workers: list[Worker] = []
        self.pongs: list[tuple[WorkerLink, str, int]] = []
        self.cancels: defaultdict[str, list[Held]] = defaultdict(list)
        self.cancelled: list[tuple[CancelRequested, Receipt]] = []
        self.refusals: list[NoteRefusal] = []
        self.entries: list[JournalEntry] = []
        self.keeps: list[tuple[KeepRequested, slice]] = []  # and where its entries are
        self.parks: dict[str, int] = {}  # jobs that wait for others, and where their graph is
        self.is_alone = False  # no other dispatcher is there
        self.signals: list[tuple[SignalSent, Receipt, int | None]] = []

    @property
    def is_written(self) -> bool:
        """True if there is anything for the store."""
        return bool(self.has_jobs or self.outcomes or self.workers or self.renewed or self.entries)

    @property
    def has_jobs(self) -> bool:
        """True if there is any job to write, or to be claimed."""
        return self.has_changes or bool(self.claims)

    @property
    def has_changes(self) -> bool:
        """True if there is any job to write."""
        new = self.insertions or self.graphs
        return bool(new or self.changes or self.deliveries)

    def batch(self) -> Batch:
        """Return what is to be written."""
        return Batch(
            now=self.now,
            inserts=[job for insertion in self.insertions for job in insertion.jobs],
            otherwise=self.otherwise,
            graphs=[insertion.graph for insertion in self.graphs],
            outcomes=self.outcomes,
            tells=EDGES_TOLD_AT_ONCE,
            may_hold=self.is_alone,
            replacements=[change.job for change in self.changes.values()],
            deliveries=[delivery.job for delivery in self.deliveries],
            claims=self.claims,
            workers=self.workers,
            renewed=tuple(self.renewed),
            entries=self.entries,
        )

    def outcome_of(
        self, insertion: Insertion, stored: Sequence[Job | UniqueKeyTaken]
    ) -> list[Receipt]:
        """Write the receipts of one submission, in the order of its submissions."""
        answers = iter(stored)
        receipts = []
        for refused in insertion.receipts:
            if refused is not None:
                receipts.append(refused)
                continue
            answer = next(answers)
            receipts.append(
                Receipt(answer.job_id, answer.field, answer.reason)
                if isinstance(answer, UniqueKeyTaken)
                else Receipt(answer.id)
            )
        return receipts
