"""The full level's messages: what our own workers and clients say to a dispatcher and back.

A message is `["", KIND, body]`; the body is msgpack, a struct of this module written as an
array. Payloads and results travel as opaque bytes inside. Spec: docs/spec/ping-pong.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import Struct

from shunter.errors import ProtocolError
from shunter.model.explanation import Explanation
from shunter.model.job import Failure, Job, Status
from shunter.model.journal import EntryKind, JournalEntry, Keep, Signal
from shunter.model.limits_record import LimitsChange, TypeLimits
from shunter.model.pause import Pause, PauseTarget
from shunter.model.report import Advance, Held, Report
from shunter.model.retry import Retry
from shunter.model.run_view import RunSummary
from shunter.model.schedule import Schedule, ScheduleDraft
from shunter.model.submission import Receipt, Submission
from shunter.model.waits import Waits
from shunter.model.worker import Handler, Worker
from shunter.model.workflow import JobEdge
from shunter.wire.answer_records import OutcomeRecord, StandingRecord

PROTOCOL_VERSION = 2
"""2: workers show the secrets of their runs."""


class Kind(StrEnum):
    """The second frame of a full message."""

    READY = "READY"
    PING = "PING"
    PONG = "PONG"
    JOBS = "JOBS"
    RESULTS = "RESULTS"
    TAKEN = "TAKEN"
    RETURN = "RETURN"
    PROGRESS = "PROGRESS"
    CANCEL = "CANCEL"
    RESIGN = "RESIGN"
    SUBMIT = "SUBMIT"
    ACCEPTED = "ACCEPTED"
    FETCH = "FETCH"
    LIST = "LIST"
    WORKERS = "WORKERS"
    STATUS = "STATUS"
    PAUSE = "PAUSE"
    PAUSES = "PAUSES"
    SCHEDULES = "SCHEDULES"
    SCHEDULE = "SCHEDULE"
    LIMITS = "LIMITS"
    SET_LIMITS = "SET_LIMITS"
    KEEP = "KEEP"
    RECALL = "RECALL"
    SIGNAL = "SIGNAL"
    JOURNAL = "JOURNAL"
    WHY = "WHY"
    RUNS = "RUNS"
    ERROR = "ERROR"
    BUSY = "BUSY"
    OFFER = "OFFER"
    GRANT = "GRANT"
    DECLINE = "DECLINE"
    PART = "PART"


class Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The shape that all bodies share."""


# ---- a worker and its dispatcher


class Hello(Message, frozen=True):
    """READY: a worker introduces itself. `beat` is answered like that of a PING.

    `window` is as in a PING; one that says nothing may be given `max_jobs` at a time. With
    `parts` the worker takes large messages in parts. `app_version` is that of its app. `started` is
    when its process was, by its own clock: of two that declare different limits for a type, the
    one started later counts.
    """

    worker_id: str
    incarnation: int
    handlers: tuple[Handler, ...]
    max_jobs: int
    beat: int
    version: int = PROTOCOL_VERSION
    hostname: str = ""
    pid: int = 0
    held: tuple[Held, ...] = ()
    window: int | None = None
    parts: bool = False
    app_version: str = ""
    started: float = 0.0


class Beat(Message, frozen=True):
    """PING: the worker lives, has these jobs, and may have up to `window` from this dispatcher."""

    beat: int
    incarnation: int
    window: int
    held: tuple[Held, ...] = ()


class Pong(Message, frozen=True):
    """PONG: the answer to a READY or PING, after the lease has been stored."""

    beat: int
    dispatcher_id: str
    store: str
    max_result_bytes: int


class Assignment(Message, frozen=True):
    """One job for a worker to do.

    `retry` is the job's own policy, and `failures` are its runs that ended with an error: so the
    worker knows whether one more would be the last. `parents` is how those that it waited for
    ended (`model/parents.py`).
    """

    job_id: str
    attempt: int
    type: str
    payload: bytes
    timeout: float | None
    run: str | None
    scheduled: float | None = None
    retry: Retry | None = None
    failures: int = 0
    traceparent: str | None = None
    parents: bytes = b""


class Assignments(Message, frozen=True):
    """JOBS: all that waits for this worker, in one message.

    `secrets` has one for each run; a worker shows it with all that it says of the run. `begun`
    names those jobs that may have kept steps though this is their first run.
    """

    jobs: tuple[Assignment, ...]
    secrets: tuple[bytes, ...]
    begun: tuple[str, ...] = ()


class Reports(Message, frozen=True):
    """RESULTS: a worker says how runs ended, and keeps that until TAKEN names its `batch`.

    `window` is how many jobs the worker may have from this dispatcher from now on. `secrets` are
    those of the runs, in the same order.
    """

    batch: int
    window: int
    reports: tuple[Report, ...]
    secrets: tuple[bytes, ...]


class Taken(Message, frozen=True):
    """TAKEN: these batches of reports are committed, or refused for good."""

    batches: tuple[int, ...]


class Returned(Message, frozen=True):
    """RETURN: jobs the worker has not done and gives back, with the secrets of the runs.

    `begun` says that it had started them, and has stopped them.
    """

    window: int
    jobs: tuple[Held, ...]
    reason: str
    secrets: tuple[bytes, ...]
    begun: bool = False


class Farewell(Message, frozen=True):
    """RESIGN: give this worker nothing new; what it can't finish it will return."""

    worker_id: str


class Advances(Message, frozen=True):
    """PROGRESS: all that is new, with the secrets of the runs."""

    advances: tuple[Advance, ...]
    secrets: tuple[bytes, ...]


class CancelOrders(Message, frozen=True):
    """CANCEL: a worker is to stop these runs and report how they ended."""

    jobs: tuple[Held, ...]


class Outcome(OutcomeRecord, Message, frozen=True):
    """How a job ended; `status` is one letter."""

    job_id: str
    status: Status
    result: bytes | None = None
    error: Failure | None = None


class Keeps(Message, frozen=True):
    """KEEP: what runs want kept, with their secrets; the answer repeats `request`."""

    request: int
    keeps: tuple[Keep, ...]
    secrets: tuple[bytes, ...]


class Kept(Message, frozen=True):
    """KEEP's answer, after the commit: False for each whose run is no longer the current one."""

    request: int
    is_kept: tuple[bool, ...]


class Recall(Message, frozen=True):
    """RECALL: a run asks for entries of its job from behind `after`, or for its children's ends.

    With a `name` it asks how the first `count` jobs ended that it waited for under it, from number
    `start` on.
    """

    request: int
    job_id: str
    attempt: int
    secret: bytes
    kind: EntryKind = EntryKind.STEP
    after: str = ""
    name: str = ""
    count: int = 0
    start: int = 0


class Recalled(Message, frozen=True):
    """RECALL's answer. `is_more` says that others follow; `now` is the dispatcher's time."""

    request: int
    entries: tuple[JournalEntry, ...] = ()
    is_more: bool = False
    signals: int = 0
    waits: Waits | None = None
    outcomes: tuple[Outcome, ...] = ()
    now: float = 0.0


# ---- a client and its dispatcher; each answer repeats the number of its request


class Submit(Message, frozen=True):
    """SUBMIT: jobs to accept, all in one commit."""

    request: int
    jobs: tuple[Submission, ...]


class Accepted(Message, frozen=True):
    """ACCEPTED: the jobs are committed (those without a reason).

    `unserved` names the types that no worker known to this dispatcher does, and `similar` for each
    the type that is spelt most like it and is served, if there is one.
    """

    request: int
    receipts: tuple[Receipt, ...]
    unserved: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


class Outcomes(Message, frozen=True):
    """RESULTS: jobs have ended. A hint, without a request: what is not delivered can be fetched."""

    outcomes: tuple[Outcome, ...]


class Fetch(Message, frozen=True):
    """FETCH: ask how jobs ended. The answer has the same kind, and a body of its own.

    With `parts` the answer may come in parts, or be a refusal that says when to come back.
    """

    request: int
    job_ids: tuple[str, ...]
    parts: bool = False


class Fetched(Message, frozen=True):
    """FETCH's answer: outcomes of those that have ended, and the ids that nobody knows."""

    request: int
    outcomes: tuple[Outcome, ...]
    unknown: tuple[str, ...] = ()


class Cancel(Message, frozen=True):
    """CANCEL: a client wants jobs stopped; answered like a submission, with a receipt for each."""

    request: int
    job_ids: tuple[str, ...]


class Signals(Message, frozen=True):
    """SIGNAL: signals for jobs; answered like a submission, with a receipt for each."""

    request: int
    signals: tuple[Signal, ...]


class JournalAsked(Message, frozen=True):
    """JOURNAL: what of a job's journal to show, from behind `after`."""

    request: int
    job_id: str
    kind: EntryKind
    after: str = ""


class JournalShown(Message, frozen=True):
    """JOURNAL's answer; `status` is the job's, read before its entries were."""

    request: int
    status: Status | None
    entries: tuple[JournalEntry, ...] = ()
    is_more: bool = False


class WhyAsked(Message, frozen=True):
    """WHY: why a job does not run, who runs it, or where its time went."""

    request: int
    job_id: str


class WhyShown(Message, frozen=True):
    """WHY's answer; None if there is no such job."""

    request: int
    explanation: Explanation | None


class PauseOrder(Message, frozen=True):
    """PAUSE: hold something back, or let it go on; answered like a submission."""

    request: int
    target: PauseTarget
    name: str
    is_on: bool = True


class PausesListed(Message, frozen=True):
    """PAUSES' answer: all that is held back."""

    request: int
    pauses: tuple[Pause, ...]


class JobsAsked(Message, frozen=True):
    """LIST: which jobs to show; with ids, exactly those, in full. `parts` is as in a FETCH.

    With a `run`, those of that run of a workflow.
    """

    request: int
    job_ids: tuple[str, ...] = ()
    status: Status | None = None
    type: str | None = None
    worker_id: str | None = None
    before: str | None = None
    limit: int = 50
    parts: bool = False
    namespace: str | None = None
    run: str | None = None


class JobsListed(Message, frozen=True):
    """LIST's answer; where ids or a run were asked for, with the edges to these jobs."""

    request: int
    jobs: tuple[Job, ...]
    edges: tuple[JobEdge, ...] = ()


class RunsAsked(Message, frozen=True):
    """RUNS: which runs of workflows to list; `after` is what the last answer said to go on with."""

    request: int
    workflow: str | None = None
    after: str | None = None
    limit: int = 50


class RunsListed(Message, frozen=True):
    """RUNS' answer: runs by falling ids; without a `next` there are no more."""

    request: int
    runs: tuple[RunSummary, ...]
    next: str | None = None


class BareRequest(Message, frozen=True):
    """WORKERS, STATUS, PAUSES or LIMITS: a question without details."""

    request: int


class WorkersListed(Message, frozen=True):
    """WORKERS' answer."""

    request: int
    workers: tuple[Worker, ...]


class Standing(StandingRecord, Message, frozen=True):
    """STATUS's answer: `backlog` has type, status and number; `counters` are this dispatcher's."""

    request: int
    dispatcher_id: str
    backlog: tuple[tuple[str, Status, int], ...]
    counters: dict[str, int]


class LimitsShown(Message, frozen=True):
    """LIMITS' and SET_LIMITS' answer: limits by type, and who holds what.

    What could not be changed comes without types, with the field at fault and the reason.
    """

    request: int
    types: tuple[TypeLimits, ...]
    field: str = ""
    reason: str = ""


class SetLimits(Message, frozen=True):
    """SET_LIMITS: change the limits of a type, for all dispatchers."""

    request: int
    type: str
    change: LimitsChange


class SchedulesAsked(Message, frozen=True):
    """SCHEDULES: which schedules to show, by falling names; with a `name`, that one, in full."""

    request: int
    name: str | None = None
    namespace: str | None = None
    before: str | None = None
    limit: int = 100


class ScheduleVerb(StrEnum):
    """What to do with a schedule."""

    PUT = "put"
    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    REMOVE = "remove"


class ScheduleOrder(Message, frozen=True):
    """SCHEDULE: put one, pause it, let it go on, have it make jobs, remove it.

    `draft` is what to put. `job_id` names the job to trigger, so that it is one, however often the
    order is sent; `begin` and `end` say which ticks to backfill.
    """

    request: int
    verb: ScheduleVerb
    name: str
    namespace: str | None = None
    draft: ScheduleDraft | None = None
    job_id: str = ""
    begin: float | None = None
    end: float | None = None


class SchedulesListed(Message, frozen=True):
    """The answer to both: schedules as they are now, and the jobs that were made.

    `next` is the `before` of the next page. A receipt with a reason says what was wrong.
    """

    request: int
    schedules: tuple[Schedule, ...] = ()
    job_ids: tuple[str, ...] = ()
    next: str | None = None
    refusal: Receipt | None = None


class RefusalCode(StrEnum):
    """What a program may have to act on."""

    OTHER = ""
    UNKNOWN_WORKER = "unknown worker"
    STORE_FAILS = "store fails"
    FORBIDDEN = "forbidden"


class Refusal(Message, frozen=True):
    """ERROR: the request could not be served; `request` is 0 where it could not be read."""

    request: int
    reason: str
    code: RefusalCode = RefusalCode.OTHER


class Busy(Message, frozen=True):
    """BUSY: a question can't be answered now; ask again after this many seconds."""

    request: int
    reason: str
    retry_after: float


# ---- large messages, in parts; `number` is the sender's name for one of them


class Offer(Message, frozen=True):
    """OFFER: a message of this kind and size is ready to be sent."""

    number: int
    kind: Kind
    size: int


class Grant(Message, frozen=True):
    """GRANT: so much of it has arrived, and there is room up to `upto`."""

    number: int
    received: int
    upto: int


class Decline(Message, frozen=True):
    """DECLINE: offer it again after this many seconds; never, if that is None."""

    number: int
    reason: str
    retry_after: float | None = None


class Part(Message, frozen=True):
    """PART: these bytes of it, from `offset`."""

    number: int
    offset: int
    data: bytes


M = TypeVar("M", bound=Message)

encode = msgspec.msgpack.Encoder().encode
_decoders: dict[type[Message], msgspec.msgpack.Decoder[Message]] = {}


def decode(body: bytes | bytearray, expected: type[M]) -> M:
    """Read a body as the given message, or raise a ProtocolError that says what is wrong."""
    decoder = _decoders.get(expected)
    if decoder is None:
        decoder = _decoders[expected] = msgspec.msgpack.Decoder(expected)
    try:
        return decoder.decode(body)  # type: ignore[return-value]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"body is not a {expected.__name__}: {error}") from None


class _Numbered(Struct, frozen=True, array_like=True):
    """The beginning that all requests share."""

    request: int


_numbered = msgspec.msgpack.Decoder(_Numbered)


def request_of(body: bytes) -> int:
    """Return the number of a request, 0 if that can't be read."""
    try:
        return _numbered.decode(body).request
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
