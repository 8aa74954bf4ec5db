"""Jobs as JSON documents, the way HTTP speaks of them: read with care, written in full.

The structs below are the one list of fields: reading checks against them, and the OpenAPI
document is made from them. Times are seconds since 1970, `execution.timeout` is milliseconds.
How values appear in JSON is in `tagged_values.py`.
Pure. Spec: docs/spec/http.md.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from shunter.model.document import sealed_data_at
from shunter.model.job import (
    Callback,
    Dispatch,
    Effects,
    ErrorKind,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
    When,
)
from shunter.model.job_limits import MAX_KEYS
from shunter.model.journal import MAX_LIVE_LOG_BYTES, MAX_PRINTED, MAX_STEP_NAME
from shunter.model.limits import (
    MAX_ERROR_NAME_LENGTH,
    MAX_ERROR_NAMES,
    MAX_FACTOR,
    MAX_MOMENT,
    MAX_RETRIES,
    MAX_SECONDS,
    TRACEPARENT_RULE,
)
from shunter.model.queue_order import PRIORITY_LIMIT
from shunter.model.redaction import redacted_callback
from shunter.model.report import Report
from shunter.model.resubmission import resubmission
from shunter.model.retry import Retry
from shunter.model.submission import Submission
from shunter.model.unique import During, Then, Unique
from shunter.model.waits import Waits
from shunter.wire.checked_documents import Document, Name, NewName, RunName, Text, checked
from shunter.wire.tagged_values import BadDocument, document_of, tagged_document

MAX_LISTED = 500
MAX_ATTEMPT = 2**31 - 1

MAX_LOG_CHARACTERS = 96 * 1024
"""How long a log may be that comes with a result: longer than what it says, if it is encrypted."""


# ---- what a client may send

Moment = Annotated[
    float, Meta(ge=0, le=MAX_MOMENT, description="seconds since 1970, a number from 0 to 1e11")
]
Span = Annotated[
    float,
    Meta(ge=0, le=MAX_SECONDS, description=f"seconds, a number from 0 to {MAX_SECONDS:.0f}"),
]
PlacementSpan = Annotated[
    float,
    Meta(
        ge=0.001,
        le=MAX_SECONDS,
        description=f"seconds, a number from 0.001 to {MAX_SECONDS:.0f}",
    ),
]
Milliseconds = Annotated[
    float,
    Meta(
        ge=0.001,
        le=MAX_SECONDS * 1000,
        description=f"milliseconds, a number from 0.001 to {MAX_SECONDS * 1000:.0f}",
    ),
]
Priority = Annotated[
    int,
    Meta(
        ge=-PRIORITY_LIMIT,
        le=PRIORITY_LIMIT,
        description=f"a whole number, -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}; higher goes first",
    ),
]
Value = Annotated[Any, Meta(description="any JSON value; bytes as an object with the key $bytes")]
Attempt = Annotated[
    int, Meta(ge=0, le=MAX_ATTEMPT, description="the attempt of the run, a whole number")
]
Limit = Annotated[int, Meta(ge=1, le=MAX_LISTED, description=f"a whole number, 1 to {MAX_LISTED}")]
Url = Annotated[
    str,
    Meta(
        pattern=r"^https?://[!-~]+\Z",
        max_length=2048,
        description="an http:// or https:// address of at most 2048 characters",
    ),
]
StepName = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_STEP_NAME, description=f"1 to {MAX_STEP_NAME} characters"),
]
RunSecret = Annotated[
    str,
    Meta(
        pattern=r"^([0-9a-f]{32})?\Z",
        description="the secret that came with the job, 32 hexadecimal digits",
    ),
]
StatusName = Annotated[
    Literal[
        "w", "q", "d", "i", "c", "f", "x",
        "waiting", "queued", "dispatching", "in_progress", "completed", "failed", "cancelled",
    ],
    Meta(description="w, q, d, i, c, f or x, or waiting, queued, dispatching, in_progress, "
    "completed, failed or cancelled"),
]  # fmt: skip
EndName = Annotated[
    Literal["c", "f", "completed", "failed"],
    Meta(description="c or completed, f or failed"),
]
EffectsName = Annotated[Effects, Meta(description=" or ".join(Effects))]
DuringName = Annotated[During, Meta(description=" or ".join(During))]
ThenName = Annotated[Then, Meta(description=", ".join(Then))]
Flag = Annotated[bool, Meta(description="true or false")]
RunLogText = Annotated[
    str,
    Meta(
        max_length=MAX_LOG_CHARACTERS,
        description=f"text of at most {MAX_LOG_CHARACTERS} characters",
    ),
]
LiveLogText = Annotated[
    str,
    Meta(
        max_length=MAX_LIVE_LOG_BYTES,
        description=f"text of at most {MAX_LIVE_LOG_BYTES} bytes, the last that the run printed",
    ),
]
Printed = Annotated[
    int, Meta(ge=0, le=MAX_PRINTED, description="a whole number of bytes, 0 or more")
]
Message = Annotated[str, Meta(max_length=65536, description="text of at most 65536 characters")]
Kind = Annotated[
    ErrorKind, Meta(description=f"one of {', '.join(ErrorKind)}; only exception is retried")
]


ErrorClasses = Annotated[
    tuple[
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_ERROR_NAME_LENGTH,
                description="an exception's class, such as ValueError or shop.OutOfStock",
            ),
        ],
        ...,
    ],
    Meta(
        max_length=MAX_ERROR_NAMES,
        description=f"a list of at most {MAX_ERROR_NAMES} names of exceptions' classes",
    ),
]

Traceparent = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z",
        description=TRACEPARENT_RULE,
    ),
]

Keys = Annotated[
    dict[str, Any],  # the names and values are checked with all else that is submitted
    Meta(
        max_length=MAX_KEYS,
        description=f'up to {MAX_KEYS} names and values, as in {{"tenant": "acme"}}',
    ),
]


Names = Annotated[
    tuple[Name, ...], Meta(max_length=10_000, description="a list of at most 10,000 ids of jobs")
]

WhenName = Annotated[str, Meta(pattern=rf"^({'|'.join(When)})\Z", description=" or ".join(When))]


class RetryPolicy(Document, frozen=True, kw_only=True):
    """Try again after an exception: `limit` times, waiting `delay` seconds and ever longer.

    With `on`, only after exceptions of these classes; never after those of `never`.
    """

    limit: Annotated[
        int, Meta(ge=0, le=MAX_RETRIES, description=f"a whole number, 0 to {MAX_RETRIES}")
    ] = Retry().limit
    delay: Span = Retry().delay
    factor: Annotated[
        float, Meta(ge=1, le=MAX_FACTOR, description=f"a number, 1 to {MAX_FACTOR}")
    ] = Retry().factor
    max_delay: Span = Retry().max_delay
    jitter: Annotated[float, Meta(ge=0, le=1, description="a number, 0 to 1")] = Retry().jitter
    on: ErrorClasses = ()
    never: ErrorClasses = ()
    on_timeout: Flag = False


class ExecutionRequest(Document, frozen=True, kw_only=True):
    """How the job is to be run."""

    timeout: Milliseconds | None = None


class CallbackRequest(Document, frozen=True, kw_only=True):
    """Whom to call when the job has ended."""

    url: Url


class UniqueRequest(Document, frozen=True, kw_only=True):
    """One job at a time has this key: how long it keeps it, and what a second one means."""

    key: Text
    within: PlacementSpan | None = None
    during: DuringName | None = None
    then: ThenName = Then.KEEP


class JobRequest(Document, frozen=True, kw_only=True):
    """A job to be done. What is left out or null is decided by the handler's defaults."""

    type: Name
    payload: Value = None
    id: NewName | None = None
    priority: Priority | None = None
    execution: ExecutionRequest | None = None
    retry: RetryPolicy | None = None
    not_before: Moment | None = None
    place_within: PlacementSpan | None = None
    unique_key: Text | None = None
    unique: UniqueRequest | None = None
    workflow: Text | None = None
    run: RunName | None = None
    effects: EffectsName | None = None
    callback: CallbackRequest | None = None
    traceparent: Traceparent | None = None
    keys: Keys | None = None
    after: Names | None = None
    when: WhenName | None = None


class RerunRequest(Document, frozen=True, kw_only=True):
    """How an ended job is to be done again; without a payload, with its own.

    The new job has this `id`, or one that is made up: name one so that a repeated request makes no
    second job. With `from_step` it has the steps that were kept before that one.
    """

    id: Name | None = None
    payload: Value | UnsetType = UNSET
    callback: CallbackRequest | None = None
    from_step: StepName | None = None


class SignalRequest(Document, frozen=True, kw_only=True):
    """A signal for a job: its value, and an `id` by which it counts once."""

    value: Value = None
    id: StepName | None = None


class FailureRequest(Document, frozen=True, kw_only=True):
    """What went wrong in a run; `is_final` says that another try is of no use.

    `is_told` says that the worker has called its app's `on_final_failure`. With the kind snoozed
    nothing went wrong: the job is to be tried again after `wait` seconds.
    """

    message: Message
    kind: Kind = ErrorKind.EXCEPTION
    traceback: Message = ""
    is_final: Flag = False
    wait: Span | None = None
    is_told: Flag = False


class ResultRequest(Document, frozen=True, kw_only=True):
    """How a run ended. `result` belongs to a completed one, `error` to a failed one.

    `secret` is what came with the job for this run. `waited` is how long the worker had the job
    before it began, and `ran` how long it then took, in seconds by the worker's own clock. `log` is
    what the run has printed. `retry` is what the handler wants for jobs that say nothing else; it
    belongs to a failed run.
    """

    status: EndName
    attempt: Attempt
    worker_id: Name
    secret: RunSecret = ""
    result: Value = None
    error: FailureRequest | Message | None = None
    waited: Span | None = None
    ran: Span | None = None
    log: RunLogText = ""
    retry: RetryPolicy | None = None


class LogRequest(Document, frozen=True, kw_only=True):
    """The last that a run has printed, which goes on; `start` bytes of its log are left out before.

    `secret` is what came with the job for this run.
    """

    attempt: Attempt
    worker_id: Name
    log: LiveLogText
    secret: RunSecret = ""
    start: Printed = 0


class JobsQuery(Document, frozen=True, kw_only=True):
    """Which jobs to list, newest first; `before` is the id of the last one already seen."""

    status: StatusName | None = None
    type: Name | None = None
    worker_id: Name | None = None
    namespace: Text | None = None
    before: Name | None = None
    limit: Limit = 50


# ---- what a client gets


class ExecutionDocument(Document, frozen=True, kw_only=True):
    """The current or last run; `timeout` is milliseconds."""

    worker_id: str | None
    sent: float | None
    started: float | None
    ended: float | None
    expiry: float | None
    timeout: float | None


class CallbackDocument(Document, frozen=True, kw_only=True):
    """Whom to call when the job has ended, and how far that has come.

    Of `url` the values of options are hidden, which may be tokens. `due` is when to call next, and
    null where nothing is to be done, not yet or not any more.
    """

    url: str
    didCallbackSuccessfully: bool  # noqa: N815 - the name in the job document
    tries: int
    error: str
    due: float | None


class JobDocument(Document, frozen=True, kw_only=True):
    """One job. Lists leave out `payload`, `result` and `log`.

    `log` is what the last run has printed; of a job in progress, the end of what is known so far.
    """

    id: str
    workflow: str | None
    run: str | None
    type: str
    payload: Any | UnsetType = UNSET
    priority: int
    created: float
    updated: float
    status: Status
    result: Any | UnsetType = UNSET
    dispatcher: Dispatch | None
    execution: ExecutionDocument
    callback: CallbackDocument | None
    attempt: int
    version: str
    revision: int
    not_before: float | None
    wait_until: float | None
    place_within: float | None
    place_by: float | None
    unique_key: str | None
    unique: Unique | None
    rerun_of: str | None
    traceparent: str | None
    namespace: str
    keys: dict[str, str]
    lane: str | None
    retry: RetryPolicy | None
    effects: Effects | None
    error: Failure | None
    progress: Progress | None
    losses: int
    failures: int
    snoozes: int
    replacements: int
    cancel_requested: bool
    history: tuple[PastAttempt, ...]
    scheduled: float | None
    signals: int
    waits: Waits | None
    when: When | None
    dependents: bool
    hook_job: str | None
    log: str | UnsetType = UNSET


class PostedJob(JobDocument, frozen=True, kw_only=True):
    """A job as it is posted to the worker that is to do it: with the secret of that run."""

    secret: str


class JobPage(Document, frozen=True, kw_only=True):
    """Some jobs, newest first; `next` is the `before` of the next page, null on the last one."""

    jobs: tuple[JobDocument, ...]
    next: str | None


def job_document(job: Job, *, in_full: bool = True) -> JobDocument:
    """Write a job that was read with its payload and result, or without them for a list."""
    run, callback = job.execution, job.callback
    return JobDocument(
        payload=tagged_document(job.payload) if in_full else UNSET,
        result=tagged_document(job.result) if in_full else UNSET,
        log=job.log if in_full else UNSET,
        execution=ExecutionDocument(
            worker_id=run.worker_id,
            sent=run.sent,
            started=run.started,
            ended=run.ended,
            expiry=run.expiry,
            timeout=None if run.timeout is None else _milliseconds(run.timeout),
        ),
        callback=None if callback is None else _callback_document(callback),
        retry=None if job.retry is None else RetryPolicy(**asdict(job.retry)),
        **dict(zip(_AS_IT_IS, _as_it_is(job), strict=True)),
    )


_AS_IT_IS = tuple(
    name
    for name in JobDocument.__struct_fields__
    if name not in ("payload", "result", "log", "execution", "callback", "retry")
)
"""What stands in a document as it stands in the record."""

_as_it_is = attrgetter(*_AS_IT_IS)


def posted_job(job: Job, secret: bytes) -> PostedJob:
    """Write a job for the worker that is to do it."""
    document = job_document(job)
    fields = {name: getattr(document, name) for name in document.__struct_fields__}
    return PostedJob(**fields, secret=secret.hex())


def _callback_document(callback: Callback) -> CallbackDocument:
    return CallbackDocument(
        url=redacted_callback(callback.url),
        didCallbackSuccessfully=callback.delivered,
        tries=callback.tries,
        error=callback.error,
        due=callback.due,
    )


def _milliseconds(seconds: float) -> float:
    exact = round(float(seconds) * 1000, 3)
    return int(exact) if exact.is_integer() else exact


# ---- reading


def submission_of(document: Any, *, new_id: str) -> Submission:
    """Read what a client wants done, under `new_id` where it names none."""
    return submission_from(checked(document, JobRequest), new_id=new_id)


def submission_from(request: JobRequest, *, new_id: str) -> Submission:
    """Return what a client wants done, under `new_id` where it names none."""
    timeout = request.execution.timeout if request.execution else None
    return Submission(
        id=request.id or new_id,
        type=request.type,
        payload=document_of(request.payload, "payload"),
        priority=request.priority,
        timeout=None if timeout is None else timeout / 1000,
        retry=None if request.retry is None else Retry(**asdict(request.retry)),
        not_before=request.not_before,
        place_within=request.place_within,
        unique_key=request.unique_key,
        unique=None if request.unique is None else _unique(request.unique),
        workflow=request.workflow,
        run=request.run,
        effects=request.effects,
        callback=None if request.callback is None else Callback(request.callback.url),
        traceparent=request.traceparent,
        reply=False,
        keys=request.keys,
        after=request.after,
        when=request.when,
    )


def _unique(request: UniqueRequest) -> Unique:
    return Unique(request.key, request.within, request.during or "", request.then)


def rerun_from(document: Any) -> str | None:
    """Read from which step a job is to be done again, if not from the first."""
    return checked(document, RerunRequest).from_step


def signal_of(document: Any) -> tuple[str, bytes]:
    """Read a signal: its id, if it has one, and its value as msgpack."""
    request = checked(document, SignalRequest)
    return request.id or "", document_of(request.value, "value")


def rerun_of(document: Any, job: Job, *, new_id: str) -> Submission:
    """Read how a job is to be done again, under `new_id` where no id is named."""
    request = checked(document, RerunRequest)
    if request.payload is not UNSET:
        payload = document_of(request.payload, "payload")
    elif job.payload is None or sealed_data_at(job.payload) is not None:
        raise BadDocument(
            "payload",
            f"that of job {job.id} is encrypted for that job alone; send it encrypted for id, or "
            "rerun it with `shunter rerun --app` or Client(codec=...)",
        )
    else:
        payload = job.payload
    submission = resubmission(job, new_id=request.id or new_id, payload=payload)
    if request.callback is None:
        return submission
    return replace(submission, callback=Callback(request.callback.url))


class HttpReport(Struct, frozen=True):
    """How a run ended, by the words of which worker, and what it shows for it."""

    worker_id: str
    report: Report
    secret: bytes = b""


def report_of(document: Any, *, job_id: str) -> HttpReport:
    """Read how a run ended."""
    request = checked(document, ResultRequest)
    return HttpReport(request.worker_id, _report(request, job_id), bytes.fromhex(request.secret))


def _report(request: ResultRequest, job_id: str) -> Report:
    report = Report(
        job_id, request.attempt, log=request.log, waited=request.waited, ran=request.ran
    )
    if status_named(request.status) is Status.COMPLETED:
        if request.error is not None:
            raise BadDocument("error", "found beside status c; leave it out, or send status f")
        return replace(report, result=document_of(request.result, "result"))
    if request.result is not None:
        raise BadDocument("result", "found beside status f; leave it out, or send status c")
    error = request.error or "its worker gave no reason"
    if isinstance(error, str):
        error = FailureRequest(message=error)
    if error.kind is ErrorKind.SNOOZED and error.wait is None:
        raise BadDocument("error.wait", "missing beside the kind snoozed; send seconds")
    failure = Failure(
        error.kind,
        error.message,
        error.traceback,
        is_final=error.is_final,
        wait=error.wait,
        is_told=error.is_told,
    )
    retry = None if request.retry is None else Retry(**asdict(request.retry))
    return replace(report, error=failure, retry=retry)


def status_named(name: str) -> Status:
    """Return the status that a letter or a word means."""
    return Status(name) if len(name) == 1 else Status[name.upper()]
