"""Why a job does not run, who runs it, or where the time of one that has ended went. Values.

Made by `why/` from what the store says; pages, programs and terminals show it. All texts are
whole sentences without their full stop, in English.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from shunter.model.json_record import JsonRecord


class ReasonKind(StrEnum):
    """What keeps a job from running."""

    TIME = "time"
    PARENTS = "parents"
    CHILDREN = "children"
    SLEEP = "sleep"
    SIGNAL = "signal"
    CLAIMED = "claimed"
    PAUSED = "paused"
    UNSERVED = "unserved"
    DRAINED = "drained"
    FULL = "full"
    LIMIT = "limit"
    TOTAL = "total"
    RATE = "rate"
    OLDER = "older"

    @property
    def is_stuck(self) -> bool:
        """True if it does not pass by itself: somebody must do something."""
        return self in _STUCK


_STUCK = frozenset({ReasonKind.PAUSED, ReasonKind.UNSERVED, ReasonKind.DRAINED, ReasonKind.SIGNAL})


class JobStanding(StrEnum):
    """How it stands with a job, for who has no time to read."""

    STUCK = "stuck"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class Holder(Struct, frozen=True, omit_defaults=True):
    """A job that has what another one wants, or that another one waits for."""

    job_id: str
    type: str
    status: str
    worker_id: str = ""
    since: float | None = None


class Reason(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that keeps a job.

    `since` and `until` are when it began and passes, as far as that is known; `holders` are some of
    the jobs that have what this one wants, and `more` how many there are besides. `count` is what
    the kind counts: older jobs, places, slots. `similar` is a served type that is spelt nearly so.
    """

    kind: ReasonKind
    text: str
    since: float | None = None
    until: float | None = None
    count: int | None = None
    is_counted_in_full: bool = True
    holders: tuple[Holder, ...] = ()
    more: int = 0
    similar: str = ""


class ChangeKind(StrEnum):
    """What would start a job."""

    WAIT = "wait"
    RESUME = "resume"
    UNDRAIN = "undrain"
    SERVE = "serve"
    SLOTS = "slots"
    LIMIT = "limit"
    TOTAL = "total"
    RATE = "rate"
    SIGNAL = "signal"
    JOBS = "jobs"


class SmallestChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one change that would start a job, as planning with it has shown.

    `target` is what is changed (a type, a worker), `value` what to change it to, or by how much;
    `at` is the moment to wait for. `command` is what to type, where there is a command for it.
    """

    kind: ChangeKind
    text: str
    target: str = ""
    value: int | None = None
    at: float | None = None
    command: str = ""


class SpanKind(StrEnum):
    """Where a job's time went."""

    DELAYED = "delayed"
    PARKED = "parked"
    QUEUED = "queued"
    EARLIER_RUNS = "earlier runs"
    BETWEEN_RUNS = "between runs"
    SENT = "sent"
    HANDLER = "handler"


class LifeSpan(Struct, frozen=True, omit_defaults=True):
    """A part of a job's life; all parts together are the whole of it."""

    kind: SpanKind
    seconds: float
    text: str


class Explanation(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to "why?" about one job, as of `at`.

    `status` is the job's, as a word. `text` says it in one sentence. `reasons` are all that must
    pass before it runs: the first is what keeps it now, and none of them can be left out. `change`
    is the smallest single change that would start it; None if no single one would. `starts_in` is
    an estimate, in seconds. `spans` are where the time of a job that runs or has ended went, and
    `holder` who runs it.
    """

    job_id: str
    type: str
    status: str
    standing: JobStanding
    at: float
    text: str
    reasons: tuple[Reason, ...] = ()
    change: SmallestChange | None = None
    starts_in: float | None = None
    holder: Holder | None = None
    spans: tuple[LifeSpan, ...] = ()
