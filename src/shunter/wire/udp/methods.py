"""The methods of the UDP dialogue and what each carries.

These structs are the one list of fields: packets are read against them and written from them,
and their descriptions are what a peer is told to send. The class of the params is the method.
What a peer adds of its own is ignored, and null is as good as absent. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shunter.model.limits import MAX_SECONDS
from shunter.wire.checked_documents import Document, Name
from shunter.wire.documents import (
    Attempt,
    Flag,
    Message,
    Moment,
    Printed,
    Priority,
    RetryPolicy,
    Span,
)
from shunter.wire.worker_documents import Handlers

MAX_NUMBER = 2**63 - 1


class Packed(bytes):
    """A msgpack document that a packet shows as JSON; make one of any document: Packed(it)."""

    __slots__ = ()


PackedValue = Annotated[
    Packed, Meta(description="any JSON value; bytes as an object with the key $bytes")
]
TaskId = Annotated[
    Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    | Annotated[str, Meta(min_length=1, max_length=128)],
    Meta(description="a whole number of 64 bits, or a text of 1 to 128 characters"),
]
TaskStatus = Annotated[
    Literal["success", "error", "failed_post"], Meta(description="success, error or failed_post")
]
CalculatorStatus = Annotated[Literal["ready", "busy"], Meta(description="ready or busy")]
LogTail = Annotated[str, Meta(max_length=65536, description="the last that the task printed")]
RunSeconds = Annotated[
    float,
    Meta(gt=0, le=MAX_SECONDS, description=f"seconds, a number above 0 up to {MAX_SECONDS:.0f}"),
]


class Params(
    Document, frozen=True, kw_only=True, forbid_unknown_fields=False, omit_defaults=True, gc=False
):
    """What the params of all methods have in common."""


class AddTask(Params, frozen=True, kw_only=True, gc=False):
    """A client wants a task done, which it calls `task_id`; without a `type` it is `default`."""

    task_id: TaskId
    type: Name | None = None
    payload: PackedValue | None = None
    priority: Priority | None = None


class NotifyTask(Params, frozen=True, kw_only=True, gc=False):
    """A client is told what became of its task."""

    status: TaskStatus
    task_id: TaskId
    result: PackedValue | None = None
    job_id: Name | None = None
    error: Message | None = None


class PerformTask(Params, frozen=True, kw_only=True, gc=False):
    """A calculator is to do a task, within `timeout` seconds.

    Tasks of two clients may share a task id; `job_id` is the name that no other task has. A task
    of a schedule says for which tick it is, `scheduled`, and one that would be tried again after an
    error `may_retry`.
    """

    task_id: TaskId
    type: Name | None = None
    payload: PackedValue | None = None
    attempt: Attempt | None = None
    timeout: RunSeconds | None = None
    job_id: Name | None = None
    scheduled: Moment | None = None
    may_retry: Flag | None = None


class TaskRetry(
    RetryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=False, omit_defaults=True
):
    """The same in as few bytes as will do, with whatever a peer adds."""


class CompletedTask(Params, frozen=True, kw_only=True, gc=False):
    """A calculator has done a task, or failed to where there is an `error`.

    Then `is_final` says that another try is of no use, `is_told` that its app's `on_final_failure`
    was called, and `wait` that the task is only put off, for this many seconds. `retry` is what the
    handler wants for tasks that say nothing else.
    `waited` is how long it had the task before it began, and `ran` how long it then took, in
    seconds by its own clock. `log` is the last that the task has printed, behind `start` bytes.
    """

    task_id: TaskId
    result: PackedValue | None = None
    attempt: Attempt | None = None
    error: Message | None = None
    is_final: Flag | None = None
    is_told: Flag | None = None
    wait: Span | None = None
    waited: Span | None = None
    ran: Span | None = None
    log: LogTail | None = None
    start: Printed | None = None
    retry: TaskRetry | None = None


class TaskLog(Params, frozen=True, kw_only=True, gc=False):
    """A calculator tells the last that its task has printed, behind `start` bytes of its log."""

    task_id: TaskId
    log: LogTail
    attempt: Attempt | None = None
    start: Printed | None = None


class Heartbeat(Params, frozen=True, kw_only=True, gc=False):
    """A calculator is there, and does jobs of the types `handlers`; else of `default`.

    With `has_hooks` its app has an `on_final_failure`: it also gets the jobs that call it.
    """

    status: CalculatorStatus
    handlers: Handlers | None = None
    has_hooks: Flag | None = None


class Ping(Params, frozen=True, kw_only=True, gc=False):
    """A client that waits is there, and listens."""


METHODS: dict[str, type[Params]] = {
    "add_task": AddTask,
    "notify_task": NotifyTask,
    "perform_task": PerformTask,
    "completed_task": CompletedTask,
    "task_log": TaskLog,
    "heartbeat": Heartbeat,
    "ping": Ping,
}
