"""What is to be done once a turn is committed. Values; performed in their order, by the shell."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from shunter.dispatch.arrivals import (
    CallbackAttempted,
    CancelRequested,
    JobReturned,
    KeepRequested,
    OnStored,
    ParkStored,
    Receipts,
    Reported,
    SignalSent,
    Stored,
    WorkerLink,
)
from shunter.errors import JobError
from shunter.model.job import Job
from shunter.model.report import Held
from shunter.model.submission import Receipt


class AnswerHeartbeat(Struct, frozen=True):
    """Answer a heartbeat: its renewal is committed."""

    link: WorkerLink
    worker_id: str
    beat: int


class ConfirmReports(Struct, frozen=True):
    """Tell a worker that these batches of reports are committed.

    To one that gets no job now it may be said a little later, together with others.
    """

    link: WorkerLink
    worker_id: str
    batches: Sequence[int]
    may_wait: bool


class SendJobs(Struct, frozen=True):
    """Hand over jobs that are committed as started on this worker."""

    link: WorkerLink
    worker_id: str
    jobs: Sequence[Job]


class StopRuns(Struct, frozen=True):
    """Have a worker stop these runs."""

    link: WorkerLink
    worker_id: str
    runs: Sequence[Held]


class NoteFailure(Struct, frozen=True):
    """Write down that a job has failed for good."""

    job: Job


class AnswerSubmission(Struct, frozen=True):
    """Tell a client which of its jobs are stored."""

    answer: Receipts
    receipts: list[Receipt]


class HandOver(Struct, frozen=True):
    """Give a gateway jobs as they are stored; before the answer to their submission."""

    on_stored: OnStored
    stored: list[Stored]


class AnswerCancel(Struct, frozen=True):
    """Tell a client what became of its submission to stop a job."""

    request: CancelRequested
    receipt: Receipt


class AnswerKeep(Struct, frozen=True):
    """Tell a run which of what it wanted kept is committed."""

    request: KeepRequested
    is_kept: list[bool]


class AnswerSignal(Struct, frozen=True):
    """Tell a client what became of its signal."""

    sent: SignalSent
    receipt: Receipt


class DeliverOutcomes(Struct, frozen=True):
    """Tell clients of one gateway how their jobs ended."""

    gateway: str
    jobs: Sequence[Job]


class MakeCallback(Struct, frozen=True):
    """Call back for an ended job: the call is ours by a write."""

    job: Job


class DecideAgain(Struct, frozen=True):
    """Put an arrival back into the inbox: what was decided on it met another write."""

    arrival: Reported | JobReturned | CancelRequested | CallbackAttempted | SignalSent | ParkStored


class PlaceAgain(Struct, frozen=True):
    """Put a claimed job back into the inbox: the place it was to start on was taken."""

    job: Job


class NoteRefusal(Struct, frozen=True):
    """Log that a worker's word on a job was not taken."""

    worker_id: str
    error: JobError


Effect = (
    AnswerHeartbeat
    | ConfirmReports
    | SendJobs
    | StopRuns
    | NoteFailure
    | AnswerSubmission
    | HandOver
    | AnswerCancel
    | AnswerKeep
    | AnswerSignal
    | DeliverOutcomes
    | MakeCallback
    | DecideAgain
    | PlaceAgain
    | NoteRefusal
)
