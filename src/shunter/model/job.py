"""The job record: what is known about one job, as an immutable value.

Field names follow the shared job document (`dispatcher`, `execution`, `callback`); what we added
stands below them. How a job changes is decided in `lifecycle.py`; where it is kept is the store's
business. `payload` and `result` are msgpack documents that nobody between client and handler opens.
Rules: docs/spec/jobs.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import AppError
from shunter.model.json_record import JsonRecord, plain_document
from shunter.model.retry import Retry
from shunter.model.unique import Unique
from shunter.model.waits import Waits

DEFAULT_TYPE = "default"
"""The type of a job that came without one, from a client that knows nothing of types."""


class Status(StrEnum):
    """Where a job stands: one letter in the store, a word for people."""

    WAITING = "w"
    QUEUED = "q"
    DISPATCHING = "d"
    IN_PROGRESS = "i"
    COMPLETED = "c"
    FAILED = "f"
    CANCELLED = "x"

    @property
    def word(self) -> str:
        """The status as people say it, such as "in progress"."""
        return self.name.lower().replace("_", " ")

    @property
    def is_final(self) -> bool:
        """True if the job has ended; it never changes again."""
        return self in FINAL


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class ErrorKind(StrEnum):
    """Why a run, or the whole job, did not complete."""

    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    LOST = "lost"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    UNPLACED = "unplaced"
    SNOOZED = "snoozed"
    PARKED = "parked"
    UNNEEDED = "unneeded"


class When(StrEnum):
    """On which outcomes of its parents a dependent runs."""

    ALL_OK = "all_ok"
    ALL_DONE = "all_done"
    ANY_FAILED = "any_failed"


class Effects(StrEnum):
    """What a handler's effects on the outside world can bear: a second run, or none at all."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Failure(Struct, frozen=True, omit_defaults=True):
    """What went wrong; `ended_by` is what it took to stop it: request, SIGTERM or SIGKILL.

    `kind` is exception, timeout, lost, cancelled, refused, unplaced, snoozed or unneeded. With
    `is_final` the worker says that another try is of no use, with `is_told` that it has called its
    app's `on_final_failure`. A snoozed job waits for `wait` seconds.
    """

    kind: ErrorKind
    message: str
    traceback: str = ""
    ended_by: str = ""
    is_final: bool = False
    wait: float | None = None
    is_told: bool = False


MAX_LINE = 300


def in_one_line(failure: Failure | None) -> str:
    """Return what went wrong as a line of a log has it."""
    if failure is None:
        return "no reason was recorded"
    text = " ".join(f"{failure.kind}: {failure.message}".split())
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"


class Dispatch(Struct, frozen=True):
    """Which dispatcher has claimed the job, when, and until when the claim holds."""

    id: str
    date: float
    expiry: float


class Execution(Struct, frozen=True, omit_defaults=True):
    """The run: who does it, since when, how long it may take.

    `sent` is when the job went to its worker. `started` and `ended` are when the handler began and
    ended, by the clock of the dispatcher that sent it; while it runs, `started` is known only of a
    handler that has told its progress. `place` is which of its worker's places the run has, where
    dispatchers share the worker; `limit_place` and `total_place` are those that it has under the
    limits of its key and type.
    """

    worker_id: str | None = None
    sent: float | None = None
    started: float | None = None
    ended: float | None = None
    expiry: float | None = None
    timeout: float | None = None
    place: int | None = None
    limit_place: int | None = None
    total_place: int | None = None

    @property
    def given_at(self) -> float | None:
        """When the worker was given the job; records of older versions say so in `started`."""
        return self.started if self.sent is None else self.sent


class Callback(Struct, frozen=True, omit_defaults=True):
    """Whom to call over HTTP when the job has ended, and how far that has come.

    `due` is when to call next, and None where nothing is to be done: not yet, or not any more.
    For `grace` seconds after the end it is left to the dispatcher that wrote the end.
    """

    url: str
    delivered: bool = False
    due: float | None = None
    tries: int = 0
    error: str = ""
    grace: float = 0.0


class ReplyTo(Struct, frozen=True, omit_defaults=True):
    """The client that wants to hear the outcome.

    `dispatcher` is set where `address` means something to that dispatcher's run alone, `number`
    where what is told has one, which the client repeats to confirm it.
    """

    gateway: str
    address: bytes
    dispatcher: str | None = None
    number: int = 0

    def under_number_of(self, first: ReplyTo | None) -> ReplyTo:
        """Return this client, to be told under the number that the first who asked is."""
        if first is None or first.gateway != self.gateway or not first.number:
            return self
        return replace(self, number=first.number)


class Progress(Struct, frozen=True, omit_defaults=True):
    """How far the handler says it has come."""

    done: float
    total: float | None
    at: float
    note: str = ""


class PastAttempt(Struct, frozen=True, omit_defaults=True):
    """A run that ended without completing the job."""

    attempt: int
    worker_id: str | None
    started: float | None
    ended: float
    outcome: str
    message: str = ""


class Job(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job. `revision` counts writes, `attempt` counts starts and is the fencing token.

    `payload` is None where the record was read without it. A job with `place_by` fails if it is
    still in the queue then; `place_within` is the span that it gets again after each loss.
    `namespace` is that of the submitter's key, and says who may see the job (`scope.py`).
    `unique_key` is the key while the job has it, and `unique` the rule by which it gives it up.
    `effects` is None until somebody has said it, the handler at the latest when the job starts.
    `scheduled` is the tick that the job of a schedule stands for (`schedule.py`).
    `rerun_of` is the job whose work this one does again. `version` is that of the app that the
    current or last run is of. `traceparent` is the span that it was submitted in.
    `keys` say whose the job is, for limits; where its type has any, it waits in the `lane` of one.
    `signals` counts those that it was sent (`journal.py`), and `waits` is what it waits for, or has
    waited for last, since a run of it parked (`waits.py`).
    `when` is on which outcomes of its parents it runs, if it has any (`workflow.py`), and
    `dependents` is set from when others wait for it until all of them know how it ended.
    `parents` is how those it waited for ended (`parents.py`); no store keeps it, it is read for the
    worker that the job goes to.
    `hook_job` is the job that calls its app's `on_final_failure` for it (`final_failure.py`); until
    that is stored, the job counts as one with `dependents`.
    """

    id: str
    type: str
    created: float
    updated: float
    payload: bytes | None = None
    status: Status = Status.QUEUED
    revision: int = 0
    attempt: int = 0
    priority: int = 0
    workflow: str | None = None
    run: str | None = None
    result: bytes | None = None
    dispatcher: Dispatch | None = None
    execution: Execution = Execution()
    callback: Callback | None = None
    not_before: float | None = None
    unique_key: str | None = None
    unique: Unique | None = None
    namespace: str = ""
    retry: Retry | None = None
    effects: Effects | None = None
    error: Failure | None = None
    progress: Progress | None = None
    reply_to: ReplyTo | None = None
    wait_until: float | None = None
    place_within: float | None = None
    place_by: float | None = None
    losses: int = 0
    failures: int = 0
    snoozes: int = 0
    replacements: int = 0
    cancel_requested: bool = False
    log: str = ""
    history: tuple[PastAttempt, ...] = ()
    scheduled: float | None = None
    rerun_of: str | None = None
    version: str = ""
    traceparent: str | None = None
    keys: dict[str, str] = {}
    lane: str | None = None
    signals: int = 0
    waits: Waits | None = None
    when: When | None = None
    dependents: bool = False
    parents: bytes = b""
    hook_job: str | None = None

    @property
    def value(self) -> Any:
        """What the handler returned, decoded; None where there is no result (yet).

        A record from a list has none, and raises an AppError that says so.
        """
        self._check_whole()
        return _decoded(self.result)

    @property
    def arguments(self) -> Any:
        """The payload, decoded: a list of positional arguments, a dict of named ones.

        A record from a list has none, and raises an AppError that says so.
        """
        self._check_whole()
        return _decoded(self.payload)

    def _check_whole(self) -> None:
        if self.payload is None:
            raise AppError(
                f"job {self.id}: this record comes from a list, and lists have neither payloads "
                f"nor results; client.job({self.id!r}) has both"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it: payload and result decoded, its status as a word.

        Bytes are base64, and what is encrypted says so. Of a list, both are left out.
        """
        plain = super().as_dict()
        plain.pop("parents", None)
        for name, document in (("payload", self.payload), ("result", self.result)):
            plain[name] = None if document is None else plain_document(document)
            if self.payload is None:
                del plain[name]
        return {**plain, "status": self.status.word}


def _decoded(document: bytes | None) -> Any:
    return None if document is None else msgspec.msgpack.decode(document)
