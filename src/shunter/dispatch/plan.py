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
    OnStored,
    Receipts,
    Reported,
    WorkerLink,
)
from shunter.dispatch.effects import NoteRefusal
from shunter.errors import UniqueKeyTaken
from shunter.model.job import Job
from shunter.model.report import Held
from shunter.model.submission import Receipt
from shunter.model.worker import Worker
from shunter.store.port import Batch, Claim


class Change(Struct, frozen=True):
    """A job as it is to be. `cause` is decided again should another write come first.

    `claimed` is the job as it was, where it is to be started on a place that may be taken.
    """

    job: Job
    cause: Reported | JobReturned | None = None
    claimed: Job | None = None


class Delivery(Struct, frozen=True):
    """An ended job with what became of its callback; without a `cause`, a call to be made."""

    job: Job
    cause: CallbackAttempted | None = None


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
        self.claims: list[Claim] = []
        self.renewed: set[str] = set()
        self.workers: list[Worker] = []
        self.pongs: list[tuple[WorkerLink, str, int]] = []
        self.cancels: defaultdict[str, list[Held]] = defaultdict(list)
        self.cancelled: list[tuple[CancelRequested, Receipt]] = []
        self.refusals: list[NoteRefusal] = []

    @property
    def is_written(self) -> bool:
        """True if there is anything for the store."""
        jobs = self.changes or self.insertions or self.claims or self.deliveries
        return bool(jobs or self.workers or self.renewed)

    def batch(self) -> Batch:
        """Return what is to be written."""
        return Batch(
            now=self.now,
            inserts=[job for insertion in self.insertions for job in insertion.jobs],
            replacements=[change.job for change in self.changes.values()],
            deliveries=[delivery.job for delivery in self.deliveries],
            claims=self.claims,
            workers=self.workers,
            renewed=tuple(self.renewed),
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
