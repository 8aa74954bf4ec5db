"""Jobs as JSON documents, the way HTTP speaks of them: read with care, written in full.

The structs below are the one list of fields: reading checks against them, and the OpenAPI
document is made from them. Times are seconds since 1970, `execution.timeout` is milliseconds.
How values appear in JSON is in `tagging.py`.
Pure. Spec: docs/spec/http.md.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from shunter.model.identity import NAME_RULE
from shunter.model.job import (
    Callback,
    Dispatch,
    ErrorKind,
    Failure,
    Job,
    PastAttempt,
    Progress,
    Status,
)
from shunter.model.limits import MAX_RETRIES, MAX_SECONDS
from shunter.model.queueing import PRIORITY_LIMIT
from shunter.model.retry import Retry
from shunter.wire.messages import Report, Submission
from shunter.wire.tagging import (
    MAX_NESTING,
    SHOWN_CHARACTERS,
    BadDocument,
    document_of,
    shown,
    tagged_document,
)

MAX_KEY_LENGTH = 512
MAX_LISTED = 500
MAX_ATTEMPT = 2**31 - 1


class NotJson(BadDocument):
    """The text is not JSON at all."""


# ---- what a client may send

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,127}\Z", description=NAME_RULE)
]
Text = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_KEY_LENGTH, description=f"1 to {MAX_KEY_LENGTH} characters"),
]
Moment = Annotated[
    float, Meta(ge=0, le=1e11, description="seconds since 1970, a number from 0 to 1e11")
]
Span = Annotated[
    float,
    Meta(ge=0, le=MAX_SECONDS, description=f"seconds, a number from 0 to {MAX_SECONDS:.0f}"),
]
Milliseconds = Annotated[
    float,
    Meta(
        gt=0,
        le=MAX_SECONDS * 1000,
        description=f"milliseconds, a number above 0 up to {MAX_SECONDS * 1000:.0f}",
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
StatusName = Annotated[
    Literal[
        "q", "d", "i", "c", "f", "x",
        "queued", "dispatching", "in_progress", "completed", "failed", "cancelled",
    ],
    Meta(description="q, d, i, c, f or x, or queued, dispatching, in_progress, completed, "
    "failed or cancelled"),
]  # fmt: skip
EndName = Annotated[
    Literal["c", "f", "completed", "failed"],
    Meta(description="c or completed, f or failed"),
]
Message = Annotated[str, Meta(max_length=65536, description="text of at most 65536 characters")]
Kind = Annotated[
    ErrorKind, Meta(description=f"one of {', '.join(ErrorKind)}; only exception is retried")
]


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape that all documents share."""


class RetryPolicy(Document, frozen=True, kw_only=True):
    """Try again after an exception: `limit` times, waiting `delay` seconds and ever longer."""

    limit: Annotated[
        int, Meta(ge=0, le=MAX_RETRIES, description=f"a whole number, 0 to {MAX_RETRIES}")
    ] = Retry().limit
    delay: Span = Retry().delay
    factor: Annotated[float, Meta(ge=1, le=1000, description="a number, 1 to 1000")] = (
        Retry().factor
    )
    max_delay: Span = Retry().max_delay
    jitter: Annotated[float, Meta(ge=0, le=1, description="a number, 0 to 1")] = Retry().jitter


class ExecutionWish(Document, frozen=True, kw_only=True):
    """How the job is to be run."""

    timeout: Milliseconds | None = None


class CallbackWish(Document, frozen=True, kw_only=True):
    """Whom to call when the job has ended."""

    url: Url


class JobWish(Document, frozen=True, kw_only=True):
    """A job to be done. What is left out or null is decided by the handler's defaults."""

    type: Name
    payload: Value = None
    id: Name | None = None
    priority: Priority | None = None
    execution: ExecutionWish | None = None
    retry: RetryPolicy | None = None
    not_before: Moment | None = None
    unique_key: Text | None = None
    workflow: Text | None = None
    run: Text | None = None
    callback: CallbackWish | None = None


class FailureWish(Document, frozen=True, kw_only=True):
    """What went wrong in a run."""

    message: Message
    kind: Kind = ErrorKind.EXCEPTION
    traceback: Message = ""


class ResultWish(Document, frozen=True, kw_only=True):
    """How a run ended. `result` belongs to a completed one, `error` to a failed one."""

    status: EndName
    attempt: Attempt
    worker_id: Name
    result: Value = None
    error: FailureWish | Message | None = None


class JobsWish(Document, frozen=True, kw_only=True):
    """Which jobs to list, newest first; `before` is the id of the last one already seen."""

    status: StatusName | None = None
    type: Name | None = None
    worker_id: Name | None = None
    before: Name | None = None
    limit: Limit = 50


# ---- what a client gets


class ExecutionDocument(Document, frozen=True, kw_only=True):
    """The current or last run; `timeout` is milliseconds."""

    worker_id: str | None
    started: float | None
    ended: float | None
    expiry: float | None
    timeout: float | None


class CallbackDocument(Document, frozen=True, kw_only=True):
    """Whom to call when the job has ended, and whether that has been done."""

    url: str
    didCallbackSuccessfully: bool  # noqa: N815 - the name that issue 3 gives it


class JobDocument(Document, frozen=True, kw_only=True):
    """One job. Lists leave out `payload`, `result` and `log`."""

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
    revision: int
    not_before: float | None
    wait_until: float | None
    unique_key: str | None
    retry: RetryPolicy | None
    error: Failure | None
    progress: Progress | None
    losses: int
    failures: int
    cancel_requested: bool
    history: tuple[PastAttempt, ...]
    log: str | UnsetType = UNSET


class JobPage(Document, frozen=True, kw_only=True):
    """Some jobs, newest first; `next` is the `before` of the next page, null on the last one."""

    jobs: tuple[JobDocument, ...]
    next: str | None


def job_document(job: Job, *, in_full: bool = True) -> JobDocument:
    """Write a job that was read with its payload and result, or without them for a list."""
    run, callback = job.execution, job.callback
    return JobDocument(
        id=job.id,
        workflow=job.workflow,
        run=job.run,
        type=job.type,
        payload=tagged_document(job.payload) if in_full else UNSET,
        priority=job.priority,
        created=job.created,
        updated=job.updated,
        status=job.status,
        result=tagged_document(job.result) if in_full else UNSET,
        dispatcher=job.dispatcher,
        execution=ExecutionDocument(
            worker_id=run.worker_id,
            started=run.started,
            ended=run.ended,
            expiry=run.expiry,
            timeout=None if run.timeout is None else _milliseconds(run.timeout),
        ),
        callback=None if callback is None else _callback_document(callback),
        attempt=job.attempt,
        revision=job.revision,
        not_before=job.not_before,
        wait_until=job.wait_until,
        unique_key=job.unique_key,
        retry=None if job.retry is None else RetryPolicy(**asdict(job.retry)),
        error=job.error,
        progress=job.progress,
        losses=job.losses,
        failures=job.failures,
        cancel_requested=job.cancel_requested,
        history=job.history,
        log=job.log if in_full else UNSET,
    )


def _callback_document(callback: Callback) -> CallbackDocument:
    return CallbackDocument(url=callback.url, didCallbackSuccessfully=callback.delivered)


def _milliseconds(seconds: float) -> float:
    exact = round(float(seconds) * 1000, 3)
    return int(exact) if exact.is_integer() else exact


# ---- reading


def parsed(text: bytes) -> Any:
    """Read JSON, or raise NotJson."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise NotJson("", f"nested too deeply; send at most {MAX_NESTING} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson("", f"the body is not JSON ({error}); send one JSON object") from None


def submission_of(document: Any, *, new_id: str) -> Submission:
    """Read what a client wants done, under `new_id` where it names none."""
    wish = checked(document, JobWish)
    timeout = wish.execution.timeout if wish.execution else None
    return Submission(
        id=wish.id or new_id,
        type=wish.type,
        payload=document_of(wish.payload, "payload"),
        priority=wish.priority,
        timeout=None if timeout is None else timeout / 1000,
        retry=None if wish.retry is None else Retry(**asdict(wish.retry)),
        not_before=wish.not_before,
        unique_key=wish.unique_key,
        workflow=wish.workflow,
        run=wish.run,
        callback=None if wish.callback is None else Callback(wish.callback.url),
        reply=False,
    )


def report_of(document: Any, *, job_id: str) -> tuple[str, Report]:
    """Read how a run ended, and on which worker."""
    wish = checked(document, ResultWish)
    if status_named(wish.status) is Status.COMPLETED:
        if wish.error is not None:
            raise BadDocument("error", "found beside status c; leave it out, or send status f")
        result = document_of(wish.result, "result")
        return wish.worker_id, Report(job_id, wish.attempt, result=result)
    if wish.result is not None:
        raise BadDocument("result", "found beside status f; leave it out, or send status c")
    error = wish.error or "its worker gave no reason"
    if isinstance(error, str):
        error = FailureWish(message=error)
    failure = Failure(error.kind, error.message, error.traceback)
    return wish.worker_id, Report(job_id, wish.attempt, error=failure)


def status_named(name: str) -> Status:
    """Return the status that a letter or a word means."""
    return Status(name) if len(name) == 1 else Status[name.upper()]


D = TypeVar("D", bound=Document)

_PLACE = re.compile(r"(?P<fault>.*?)(?: - at `\$(?P<path>[^`]*)`)?\Z", re.DOTALL)
_NAMED = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`\Z")


def checked(document: Any, expected: type[D]) -> D:
    """Take a parsed document for the given one, or raise BadDocument that names the field."""
    while True:
        try:
            return msgspec.convert(document, expected)
        except msgspec.ValidationError as error:
            place = _PLACE.match(str(error))
            assert place is not None
            fault, path = place["fault"], (place["path"] or "").lstrip(".")
            if not _made_whole(fault, path, document):
                raise _fault(fault, path, document, expected) from None


def _made_whole(fault: str, path: str, document: Any) -> bool:
    """Write 5.0 as 5 where a whole number is wanted: JSON does not tell them apart."""
    *outer, last = path.split(".")
    for step in outer:
        document = document[step]
    found = document.get(last) if isinstance(document, dict) else None
    if not fault.startswith("Expected `int") or not isinstance(found, float):
        return False
    if found.is_integer():
        document[last] = int(found)
    return found.is_integer()


def _fault(fault: str, path: str, document: Any, expected: type[Document]) -> BadDocument:
    rules = rules_of(expected)
    if named := _NAMED.match(fault):
        prefix = f"{path}." if path else ""
        field = prefix + named["name"][:SHOWN_CHARACTERS]
        if named["what"] == "missing required":
            return BadDocument(field, f"missing; send {rules[field]}")
        known = ", ".join(
            rule.removeprefix(prefix)
            for rule in rules
            if rule.startswith(prefix) and "." not in rule.removeprefix(prefix)
        )
        return BadDocument(field, f"not a field of this document; send any of {known}")
    for step in path.split(".") if path else ():
        document = document.get(step) if isinstance(document, dict) else None
    send = rules.get(path, "a JSON object")
    return BadDocument(path, f"found {shown(document)}; send {send}")


def rules_of(expected: type[Document], prefix: str = "") -> dict[str, str]:
    """Say for each field of a document, by its dotted path, what to send."""
    rules = {}
    for name, hint in get_type_hints(expected, include_extras=True).items():
        for part in (hint, *get_args(hint)):
            if isinstance(part, type) and issubclass(part, Document):
                inner = rules_of(part, f"{prefix}{name}.")
                fields = ", ".join(key.removeprefix(f"{prefix}{name}.") for key in inner)
                rules[prefix + name] = f"an object with {fields}"
                rules |= inner
            for note in getattr(part, "__metadata__", ()):
                rules.setdefault(prefix + name, note.description)
    return rules
