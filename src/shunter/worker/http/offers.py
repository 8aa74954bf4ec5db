"""The documents of an HTTP worker: jobs that it is offered, and what it says itself.

A job's document may have fields that this version does not know; those it needs are checked.
Pure. Spec: docs/spec/http-workers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from shunter.codec import is_sealed_text
from shunter.model.job import ErrorKind
from shunter.model.job_log import end_of_log, shown_log
from shunter.model.journal import LiveLog
from shunter.model.parents import NOT_SENT
from shunter.model.report import Report
from shunter.model.retry import Retry
from shunter.model.worker import Handler
from shunter.wire.checked_documents import Document, Name, Text, checked
from shunter.wire.documents import (
    MAX_LOG_CHARACTERS,
    Attempt,
    Milliseconds,
    Moment,
    RetryPolicy,
    RunSecret,
    Traceparent,
    Value,
)
from shunter.wire.messages import Assignment
from shunter.wire.tagged_values import document_of, tagged_document
from shunter.wire.worker_documents import HandlerSchedule, handler_schedule
from shunter.worker.http.holdings import RunOffer

MESSAGE_CHARACTERS = 60_000
"""Dispatchers take messages that are a little longer."""


class OfferedRun(Document, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The run that the job is offered for; `timeout` is milliseconds."""

    worker_id: Name
    timeout: Milliseconds | None = None


class OfferedJob(Document, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What is needed of a job's document."""

    id: Name
    type: Name
    attempt: Attempt
    execution: OfferedRun
    payload: Value = None
    run: Text | None = None
    scheduled: Moment | None = None
    traceparent: Traceparent | None = None
    secret: RunSecret = ""
    retry: RetryPolicy | None = None
    failures: int = 0
    when: Text | None = None


class Health(Struct, frozen=True, kw_only=True):
    """The answer to a health check; `id` is null before a dispatcher has given one."""

    id: str | None
    jobs: int
    maxJobs: int  # noqa: N815 - the name that the protocol gives it


class RunStanding(Struct, frozen=True, kw_only=True):
    """The answer to a question about a run."""

    id: str
    attempt: int | None
    status: str


class Introduction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker tells a dispatcher about itself, with the secret that it is to be shown."""

    hostname: str
    port: int
    handlers: Sequence[str]
    maxJobs: int  # noqa: N815 - likewise
    scheme: str = "http"
    secret: str = ""
    version: str = ""
    schedules: Sequence[HandlerSchedule] = ()
    hasHooks: bool = False  # noqa: N815 - likewise

    def __repr__(self) -> str:
        return f"Introduction({self.hostname!r}, {self.port})"


class Registered(Struct, frozen=True):
    """What is needed of the answer to an introduction; `notes` are for the log."""

    id: str
    notes: tuple[str, ...] = ()


class _Failed(Struct, frozen=True, omit_defaults=True):
    kind: ErrorKind
    message: str
    traceback: str
    is_final: bool = False
    wait: float | None = None
    is_told: bool = False


class _Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    status: str
    attempt: int
    worker_id: str
    secret: str = ""
    result: Any = None
    error: _Failed | None = None
    waited: float | None = None
    ran: float | None = None
    log: str = ""
    retry: Retry | None = None


class _Log(Struct, frozen=True, kw_only=True, omit_defaults=True):
    attempt: int
    worker_id: str
    log: str
    secret: str = ""
    start: int = 0


def log_document(offer: RunOffer, log: LiveLog) -> bytes:
    """Write the last that a run has printed, and show its secret."""
    document = _Log(
        attempt=offer.attempt,
        worker_id=offer.worker_id,
        log=log.text,
        secret=offer.secret,
        start=log.start,
    )
    return msgspec.json.encode(document)


def handler_schedules(handlers: Sequence[Handler]) -> tuple[HandlerSchedule, ...]:
    """Write the schedules that handlers declare."""
    return tuple(
        handler_schedule(handler.type, handler.schedule)
        for handler in handlers
        if handler.schedule is not None
    )


def offer_of(document: Any) -> tuple[RunOffer, Assignment]:
    """Read a job, or raise a BadDocument that names the field at fault."""
    job = checked(document, OfferedJob)
    timeout = job.execution.timeout
    assignment = Assignment(
        job.id,
        job.attempt,
        job.type,
        document_of(job.payload, "payload"),
        None if timeout is None else timeout / 1000,
        job.run,
        job.scheduled,
        None if job.retry is None else Retry(**asdict(job.retry)),
        job.failures,
        job.traceparent,
        parents=b"" if job.when is None else NOT_SENT,
    )
    offer = RunOffer(
        job_id=job.id,
        attempt=job.attempt,
        type=job.type,
        worker_id=job.execution.worker_id,
        secret=job.secret,
    )
    return offer, assignment


def result_document(report: Report, worker_id: str, secret: str = "") -> bytes:
    """Write how a run ended, and show its secret."""
    error, log = report.error, _fitting_log(report.log)
    if error is None:
        document = _Result(
            status="c",
            attempt=report.attempt,
            worker_id=worker_id,
            secret=secret,
            result=tagged_document(report.result),
            waited=report.waited,
            ran=report.ran,
            log=log,
        )
    else:
        message = error.message[:MESSAGE_CHARACTERS]
        if error.ended_by:
            message = f"{message} (ended by {error.ended_by})"
        document = _Result(
            status="f",
            attempt=report.attempt,
            worker_id=worker_id,
            secret=secret,
            error=_Failed(
                error.kind,
                message,
                error.traceback[:MESSAGE_CHARACTERS],
                error.is_final,
                error.wait,
                error.is_told,
            ),
            waited=report.waited,
            ran=report.ran,
            log=log,
            retry=None if report.retry is None else report.retry.without_classes,
        )
    return msgspec.json.encode(document)


def _fitting_log(log: str) -> str:
    """Return as much of a log as a dispatcher takes: its end; an encrypted one can't be cut."""
    if len(log) <= MAX_LOG_CHARACTERS:
        return log
    if is_sealed_text(log):
        return ""
    raw = log.encode()
    return shown_log(end_of_log(raw, printed=len(raw), most=MAX_LOG_CHARACTERS - 100))
