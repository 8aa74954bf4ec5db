"""The worker record: how a worker appears to dispatchers.

`jobs` and `places` are not stored but read from the jobs themselves, so that the two can't
disagree.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.identity import hook_name
from shunter.model.job_limits import JobLimits
from shunter.model.json_record import JsonRecord, plain_fields
from shunter.model.retry import Retry
from shunter.model.schedule import ScheduleTerms

PLAIN_PREFIX = "plain:"
"""Ids of workers that know only the plain level begin so; they can't be told to stop."""

UDP_PREFIX = "udp:"
"""Ids of calculators begin so; they can't be told to stop either."""


class Traits(Struct, frozen=True):
    """What can be expected of workers of one kind.

    `can_stop`: they can be asked to stop a job. `is_shared`: all dispatchers give them jobs,
    without a connection, so a job needs one of the worker's places. `lists_jobs`: their
    heartbeats renew a lease and say what they have. `divides_window`: they tell each dispatcher
    how many jobs it may give them. `declares_limits`: they say which limits their types have.
    `is_called`: they have an address at which dispatchers call them, and look whether they are
    well. `has_task_timeout`: while one works it is silent, and its task has a time of its own.
    """

    can_stop: bool = False
    is_shared: bool = False
    lists_jobs: bool = False
    divides_window: bool = False
    declares_limits: bool = False
    is_called: bool = False
    has_task_timeout: bool = False


class WorkerKind(StrEnum):
    """Which dialogue the worker speaks."""

    FULL = "full"
    PLAIN = "plain"
    HTTP = "http"
    UDP = "udp"

    @property
    def traits(self) -> Traits:
        return TRAITS[self]


TRAITS = {
    WorkerKind.FULL: Traits(
        can_stop=True, lists_jobs=True, divides_window=True, declares_limits=True
    ),
    WorkerKind.PLAIN: Traits(),
    WorkerKind.HTTP: Traits(can_stop=True, is_shared=True, is_called=True),
    WorkerKind.UDP: Traits(has_task_timeout=True),
}


def kind_of(worker_id: str) -> WorkerKind:
    """Guess the kind of a worker of which only the id is known; unprefixed ids can be stopped."""
    prefixes = {PLAIN_PREFIX: WorkerKind.PLAIN, UDP_PREFIX: WorkerKind.UDP}
    return next((k for p, k in prefixes.items() if worker_id.startswith(p)), WorkerKind.FULL)


MAX_HANDLERS = 256
"""How many types of job one worker may do."""

MAX_WORKERS = 10_000
"""How many workers of all kinds one dispatcher lets in."""


class DeclaredSchedule(Struct, frozen=True, omit_defaults=True):
    """When jobs of a handler are made by themselves, and with which payload.

    `started` is when the worker's process began.
    """

    terms: ScheduleTerms
    payload: bytes = b""
    started: float = 0.0


class Handler(Struct, frozen=True, omit_defaults=True):
    """A type of job that a worker does, and what it wants for jobs that say nothing else.

    `concurrency` is how many jobs may be in one of the worker's processes while one of these is.
    One that does not see its job's parents is not sent their results. `has_hooks` says that its app
    wants to be told of final failures (`final_failure.py`).
    """

    type: str
    priority: int = 0
    timeout: float | None = None
    retry: Retry | None = None
    effects: str | None = None
    concurrency: int = 1
    schedule: DeclaredSchedule | None = None
    limits: JobLimits | None = None
    sees_parents: bool = True
    has_hooks: bool = False


class Worker(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker, as the store knows it.

    `last_pinged` is when it last spoke, or for an HTTP worker, when it was last asked; `answered`
    is when that one last answered, and `verified` when it was last asked for its jobs. `revision`
    counts the writes of a record that several dispatchers change. `key` names the key that it
    showed. `started` is when its process was, by its own clock. `secret` is what an HTTP worker
    knows dispatchers by, and nobody else is to see it. `version` is that of its app, where that has
    one.
    """

    id: str
    kind: WorkerKind
    hostname: str
    port: int
    handlers: tuple[Handler, ...]
    max_jobs: int
    incarnation: int = 0
    registered: float
    last_pinged: float
    failed_ping_count: int = 0
    last_error: str = ""
    is_resigned: bool = False
    is_dead: bool = False
    answered: float | None = None
    verified: float = 0.0
    revision: int = 0
    key: str = ""
    scheme: str = "http"
    secret: str = ""
    version: str = ""
    started: float = 0.0
    jobs: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return Struct.__repr__(self.shown)

    @property
    def shown(self) -> Worker:
        """The record as others may see it."""
        return replace(self, secret="") if self.secret else self

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dict that `json.dumps` takes, with its state and no secret."""
        return {**plain_fields(self.shown), "state": self.state}

    @property
    def types(self) -> frozenset[str]:
        """What it does: its handlers' types, and calls of hooks for those that have any."""
        hooks = {hook_name(it.type) for it in self.handlers if it.has_hooks}
        return frozenset(it.type for it in self.handlers) | hooks

    @property
    def is_gone(self) -> bool:
        """True if it gets no more jobs: it has died or left."""
        return self.is_dead or self.is_resigned

    @property
    def has_hooks(self) -> bool:
        """True if its app has declared what is called when a job has failed for good."""
        return any(handler.has_hooks for handler in self.handlers)

    @property
    def state(self) -> str:
        """How it is, in a word for people."""
        if self.is_dead:
            return "dead"
        if self.is_resigned:
            return "resigned"
        is_untried = self.kind.traits.is_called and self.answered is None
        return "untried" if is_untried else "alive"
