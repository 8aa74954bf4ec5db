"""Workers as JSON documents. Pure. Spec: docs/spec/http-workers.md.

Names are the seed's own, hence the capitals in them.
"""

# ruff: noqa: N815

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shunter.model.worker import MAX_HANDLERS, Worker, WorkerKind
from shunter.wire.checking import Document, Name

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
    tuple[Name, ...],
    Meta(
        min_length=1,
        max_length=MAX_HANDLERS,
        description=f"a list of 1 to {MAX_HANDLERS} names of job types",
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


class WorkerRequest(Document, frozen=True, kw_only=True):
    """A worker that wants jobs: where it listens, what it does, how many it can hold.

    Who gives a `secret` is shown it with each call, as bearer token. `version` is that of what it
    runs; all workers of one can be drained.
    """

    hostname: Hostname
    port: WorkerPort
    handlers: Handlers
    maxJobs: MaxJobs
    scheme: Scheme = "http"
    secret: Secret | None = None
    version: Name | None = None


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


class WorkerList(Document, frozen=True, kw_only=True):
    """All workers, in the order of their ids."""

    workers: tuple[WorkerDocument, ...]


def worker_document(worker: Worker) -> WorkerDocument:
    """Write a worker."""
    return WorkerDocument(
        id=worker.id,
        kind=worker.kind.value,
        state=worker.state,
        hostname=worker.hostname,
        port=worker.port,
        scheme=worker.scheme if worker.kind is WorkerKind.HTTP else None,
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
