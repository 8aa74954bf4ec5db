"""Workers as JSON documents. Pure. Spec: docs/spec/http-workers.md.

Names are the seed's own, hence the capitals in them.
"""

# ruff: noqa: N815

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from shunter.model.identity import HOOK_PREFIX
from shunter.model.schedule import (
    DEFAULT_CATCH_UP_SECONDS,
    MAX_DECLARED_BYTES,
    Overlap,
    ScheduleTerms,
    terms_faults,
)
from shunter.model.timing import Cron
from shunter.model.worker import MAX_HANDLERS, DeclaredSchedule, Handler, Worker
from shunter.wire.checked_documents import Document, Name, NewName
from shunter.wire.documents import Flag, Moment, Span, Value
from shunter.wire.schedule_documents import (
    CronText,
    Interval,
    Jitter,
    OverlapName,
    Zone,
    timing_of,
)
from shunter.wire.tagged_values import BadDocument, document_of, tagged_document

MAX_JOBS = 10_000

Hostname = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:.]{0,45}:[0-9A-Fa-f:.]{1,45})\Z",
        description="a host name or an IP address",
    ),
]
WorkerPort = Annotated[int, Meta(ge=1, le=65535, description="a port, 1 to 65535")]
Handlers = Annotated[
    tuple[NewName, ...],
    Meta(
        min_length=1,
        max_length=MAX_HANDLERS,
        description=f"a list of 1 to {MAX_HANDLERS} names of job types, none beginning with "
        f"{HOOK_PREFIX}",
    ),
]
MaxJobs = Annotated[
    int, Meta(ge=1, le=MAX_JOBS, description=f"how many jobs at a time, 1 to {MAX_JOBS}")
]
Scheme = Annotated[Literal["http", "https"], Meta(description='"http" or "https"')]
Secret = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9._~+/-]{16,256}=*\Z",
        description="16 to 256 random letters, digits or any of . _ ~ + / -",
    ),
]


class HandlerSchedule(Document, frozen=True, kw_only=True):
    """A schedule that the worker's app declares for one of its handlers, whose name it has.

    `payload` is what its jobs bring along, `started` when the worker's process began.
    """

    handler: Name
    payload: Value = None
    cron: CronText | None = None
    tz: Zone = "UTC"
    every: Interval | None = None
    overlap: OverlapName = Overlap.SKIP
    catch_up: Span = DEFAULT_CATCH_UP_SECONDS
    jitter: Jitter = 0.0
    started: Moment = 0.0


Declared = Annotated[
    tuple[HandlerSchedule, ...],
    Meta(max_length=MAX_HANDLERS, description="a list of schedules, each with its handler"),
]


class WorkerRequest(Document, frozen=True, kw_only=True):
    """A worker that wants jobs: where it listens, what it does, how many it can hold.

    Who gives a `secret` is shown it with each call, as bearer token. `version` is that of what it
    runs; all workers of one can be drained. `hasHooks` says that it is one of Shunter's own whose
    app has an `on_final_failure`: it also gets the jobs that call it.
    """

    hostname: Hostname
    port: WorkerPort
    handlers: Handlers
    maxJobs: MaxJobs
    scheme: Scheme = "http"
    secret: Secret | None = None
    schedules: Declared = ()
    version: Name | None = None
    hasHooks: Flag = False


class WorkerDocument(Document, frozen=True, kw_only=True):
    """One worker; times are seconds since 1970.

    `state` is untried, alive, resigned or dead. `lastPinged` is when a worker was last asked
    whether it lives, `answered` when it last said so. `key` names the key that it showed.
    """

    id: str
    kind: str
    state: str
    hostname: str
    port: int
    scheme: str | None
    key: str | None
    version: str | None
    handlers: tuple[str, ...]
    maxJobs: int
    jobs: tuple[str, ...]
    registered: float
    lastPinged: float
    answered: float | None
    failedPingCount: int
    lastError: str | None
    isResigned: bool
    isDead: bool


class RegisteredWorker(WorkerDocument, frozen=True, kw_only=True):
    """The same as it is answered to the worker itself, with what its log should say."""

    notes: tuple[str, ...] = ()


class WorkerList(Document, frozen=True, kw_only=True):
    """All workers, in the order of their ids."""

    workers: tuple[WorkerDocument, ...]


def declared_handlers(request: WorkerRequest) -> tuple[Handler, ...]:
    """Return what a worker does, with the schedules that it declares, or raise BadDocument."""
    declared = {it.handler: it for it in request.schedules}
    for name in declared:
        if name not in request.handlers:
            raise BadDocument("schedules", f"{name} is none of the handlers; leave it out")
    return tuple(
        Handler(name, schedule=_declared_schedule(declared[name]))
        if name in declared
        else Handler(name)
        for name in dict.fromkeys(request.handlers)
    )


def handler_schedule(handler: str, schedule: DeclaredSchedule) -> HandlerSchedule:
    """Write a schedule that an app declares."""
    terms, timing = schedule.terms, schedule.terms.timing
    is_cron = isinstance(timing, Cron)
    return HandlerSchedule(
        handler=handler,
        payload=tagged_document(schedule.payload),
        cron=timing.text if isinstance(timing, Cron) else None,
        tz=timing.tz if isinstance(timing, Cron) else "UTC",
        every=None if is_cron else timing.seconds,  # type: ignore[union-attr]
        overlap=terms.overlap,
        catch_up=terms.catch_up,
        jitter=terms.jitter,
        started=schedule.started,
    )


def _declared_schedule(declared: HandlerSchedule) -> DeclaredSchedule:
    terms = ScheduleTerms(
        timing=timing_of(declared.cron, declared.tz, declared.every),
        overlap=declared.overlap,
        catch_up=declared.catch_up,
        jitter=declared.jitter,
    )
    for field, reason in terms_faults(terms):
        raise BadDocument("schedules", f"{declared.handler}: {field}: {reason}")
    payload = document_of(declared.payload, "schedules")
    if len(payload) > MAX_DECLARED_BYTES:
        fact = f"{declared.handler}: payload: {len(payload):,} bytes"
        raise BadDocument("schedules", f"{fact}; send at most {MAX_DECLARED_BYTES:,}")
    return DeclaredSchedule(terms, payload, declared.started)


def registered_worker(worker: Worker, notes: Sequence[str]) -> RegisteredWorker:
    """Write a worker for itself."""
    document = worker_document(worker)
    fields = {name: getattr(document, name) for name in document.__struct_fields__}
    return RegisteredWorker(**fields, notes=tuple(notes))


def worker_document(worker: Worker) -> WorkerDocument:
    """Write a worker."""
    return WorkerDocument(
        id=worker.id,
        kind=worker.kind.value,
        state=worker.state,
        hostname=worker.hostname,
        port=worker.port,
        scheme=worker.scheme if worker.kind.traits.is_called else None,
        key=worker.key or None,
        version=worker.version or None,
        handlers=tuple(handler.type for handler in worker.handlers),
        maxJobs=worker.max_jobs,
        jobs=worker.jobs,
        registered=worker.registered,
        lastPinged=worker.last_pinged,
        answered=worker.answered,
        failedPingCount=worker.failed_ping_count,
        lastError=worker.last_error or None,
        isResigned=worker.is_resigned,
        isDead=worker.is_dead,
    )
