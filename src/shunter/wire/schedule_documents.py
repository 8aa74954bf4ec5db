"""Schedules as JSON documents. Pure. Spec: docs/spec/http.md."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from shunter.model.job import Callback
from shunter.model.key import NAME_RULE as NAMESPACE_RULE
from shunter.model.redaction import redacted_callback
from shunter.model.retry import Retry
from shunter.model.schedule import (
    DEFAULT_CATCH_UP_SECONDS,
    MAX_JITTER_SECONDS,
    Overlap,
    Schedule,
    ScheduleDraft,
    ScheduleTerms,
)
from shunter.model.submission import Submission
from shunter.model.timing import (
    CRON_RULE,
    LEAST_SECONDS,
    MOST_CHARACTERS,
    MOST_SECONDS,
    ZONE_RULE,
    Cron,
    Every,
    Timing,
)
from shunter.wire.checked_documents import Document, Name, RunName, Text, checked
from shunter.wire.documents import (
    CallbackRequest,
    ExecutionRequest,
    Limit,
    Moment,
    PlacementSpan,
    Priority,
    RetryPolicy,
    Span,
    Value,
)
from shunter.wire.tagged_values import BadDocument, document_of, tagged_document

CronText = Annotated[str, Meta(min_length=9, max_length=MOST_CHARACTERS, description=CRON_RULE)]
Zone = Annotated[str, Meta(min_length=1, max_length=MOST_CHARACTERS, description=ZONE_RULE)]
Interval = Annotated[
    float,
    Meta(
        ge=LEAST_SECONDS,
        le=MOST_SECONDS,
        description=f"seconds, a number from {LEAST_SECONDS:g} to {MOST_SECONDS:.0f}",
    ),
]
Jitter = Annotated[
    float,
    Meta(
        ge=0,
        le=MAX_JITTER_SECONDS,
        description=f"seconds, a number from 0 to {MAX_JITTER_SECONDS:.0f}",
    ),
]
OverlapName = Annotated[Overlap, Meta(description=f"one of {', '.join(Overlap)}")]
Pause = Annotated[bool, Meta(description="true or false; null leaves it as it is")]
Namespace = Annotated[
    str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?\Z", description=NAMESPACE_RULE)
]
PageName = Annotated[
    str, Meta(min_length=1, max_length=256, description="the `next` of the page before")
]


class ScheduleRequest(Document, frozen=True, kw_only=True):
    """A schedule to be: `cron` with its `tz`, or `every`, in seconds, and the job to make."""

    type: Name
    payload: Value = None
    cron: CronText | None = None
    tz: Zone = "UTC"
    every: Interval | None = None
    overlap: OverlapName = Overlap.SKIP
    catch_up: Span = DEFAULT_CATCH_UP_SECONDS
    jitter: Jitter = 0.0
    paused: Pause | None = None
    priority: Priority | None = None
    execution: ExecutionRequest | None = None
    retry: RetryPolicy | None = None
    place_within: PlacementSpan | None = None
    workflow: Text | None = None
    run: RunName | None = None
    callback: CallbackRequest | None = None


class ScheduleQuery(Document, frozen=True, kw_only=True):
    """Whose schedule is meant; one's own, if nothing is said."""

    namespace: Namespace | None = None


class TriggerQuery(ScheduleQuery, frozen=True, kw_only=True):
    """The same, with the id of the job to make, which is then made once only."""

    job_id: Name | None = None


class SchedulesQuery(ScheduleQuery, frozen=True, kw_only=True):
    """Which schedules to list, by falling names; `before` is the `next` of the page before."""

    before: PageName | None = None
    limit: Limit = 50


class BackfillRequest(Document, frozen=True, kw_only=True):
    """Which ticks to make up for: from `begin` on, and before `end`."""

    begin: Moment
    end: Moment


class ScheduleDocument(Document, frozen=True, kw_only=True):
    """One schedule; times are seconds since 1970. Lists leave out `payload`.

    `next` is the tick that comes next, `last` the one that came last, `waiting` one that waits for
    the jobs in `unfinished`. `error` says why the last tick could not be made a job. `declared_by`
    is the worker whose app declares the schedule.
    """

    name: str
    namespace: str
    type: str
    payload: Any | UnsetType = UNSET
    cron: str | None
    tz: str | None
    every: float | None
    overlap: Overlap
    catch_up: float
    jitter: float
    paused: bool
    next: float | None
    last: float | None
    waiting: float | None
    unfinished: tuple[str, ...]
    error: str | None
    declared_by: str | None
    priority: int | None
    execution: ExecutionRequest
    retry: RetryPolicy | None
    place_within: float | None
    workflow: str | None
    run: str | None
    callback: CallbackRequest | None
    created: float
    updated: float


class ScheduleList(Document, frozen=True, kw_only=True):
    """Some schedules, by falling names; `next` is null on the last page."""

    schedules: tuple[ScheduleDocument, ...]
    next: str | None


class MadeJobs(Document, frozen=True, kw_only=True):
    """The ids of jobs that were made, or were there already."""

    job_ids: tuple[str, ...]


def draft_of(document: Any, name: str) -> ScheduleDraft:
    """Read what a client wants to be, or raise BadDocument."""
    request = checked(document, ScheduleRequest)
    timeout = request.execution.timeout if request.execution else None
    job = Submission(
        id=name,
        type=request.type,
        payload=document_of(request.payload, "payload"),
        priority=request.priority,
        timeout=None if timeout is None else timeout / 1000,
        retry=None if request.retry is None else Retry(**asdict(request.retry)),
        place_within=request.place_within,
        workflow=request.workflow,
        run=request.run,
        callback=None if request.callback is None else Callback(request.callback.url),
        reply=False,
    )
    terms = ScheduleTerms(
        timing=timing_of(request.cron, request.tz, request.every),
        overlap=request.overlap,
        catch_up=request.catch_up,
        jitter=request.jitter,
    )
    return ScheduleDraft(terms=terms, job=job, is_paused=request.paused)


def timing_of(cron: str | None, tz: str, every: float | None) -> Timing:
    """Return when ticks come, of which one of two must be said."""
    if (cron is None) is (every is None):
        fact = "missing, and so is every" if cron is None else "found beside every"
        raise BadDocument("cron", f"{fact}; send one of the two")
    return Every(every) if every is not None else Cron(cron or "", tz)


def schedule_document(schedule: Schedule, *, in_full: bool = True) -> ScheduleDocument:
    """Write a schedule that was read with its payload, or without it for a list."""
    terms, job, timing = schedule.terms, schedule.job, schedule.terms.timing
    is_cron = isinstance(timing, Cron)
    callback = None if job.callback is None else redacted_callback(job.callback.url)
    return ScheduleDocument(
        name=schedule.name,
        namespace=schedule.namespace,
        type=job.type,
        payload=tagged_document(job.payload) if in_full else UNSET,
        cron=timing.text if isinstance(timing, Cron) else None,
        tz=timing.tz if isinstance(timing, Cron) else None,
        every=None if is_cron else timing.seconds,  # type: ignore[union-attr]
        overlap=terms.overlap,
        catch_up=terms.catch_up,
        jitter=terms.jitter,
        paused=schedule.is_paused,
        next=schedule.next,
        last=schedule.last,
        waiting=schedule.waiting,
        unfinished=schedule.unfinished,
        error=schedule.error or None,
        declared_by=schedule.declared_by or None,
        priority=job.priority,
        execution=ExecutionRequest(timeout=None if job.timeout is None else job.timeout * 1000),
        retry=None if job.retry is None else RetryPolicy(**asdict(job.retry)),
        place_within=job.place_within,
        workflow=job.workflow,
        run=job.run,
        callback=None if callback is None else CallbackRequest(url=callback),
        created=schedule.created,
        updated=schedule.updated,
    )
