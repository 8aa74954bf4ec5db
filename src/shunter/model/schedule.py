"""A schedule, and what becomes of its ticks: which are made jobs, which are left out.

A schedule is a record that dispatchers share. Its `next` says which tick comes next, so that clocks
which differ still mean the same tick. Whoever finds it due inserts the tick's job under a unique
key, and then moves the record on by compare-and-swap: two that do so make one job, and one that
dies in between is repeated without harm. Pure: `now` is always an argument, and what became of
earlier jobs is for the caller to look up. Rules: docs/spec/schedules.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.model.identity import NAME_RULE, RESERVED, is_name, is_reserved
from shunter.model.json_record import JsonRecord
from shunter.model.limits import MAX_SECONDS, option_faults, run_fault
from shunter.model.submission import Receipt, Submission
from shunter.model.timing import Timing, next_tick, offset, tick_text, timing_faults

ON_TIME_SECONDS = 60.0
"""A tick that is no later than this is on time: clocks differ, and dispatchers are restarted."""

MOST_TICKS = 200
"""So many ticks are decided on at once; more that were missed follow at once."""

MOST_BACKFILLED = 1000
MAX_JITTER_SECONDS = 86400.0
MAX_PAYLOAD_BYTES = 64 << 10
MAX_DECLARED_BYTES = 4 << 10
"""What jobs of a declared schedule bring along: a call without arguments, perhaps encrypted."""

DEFAULT_CATCH_UP_SECONDS = 3600.0

NOTHING: Mapping[float, str] = {}

TICK_FIELDS = ("delay", "not_before", "unique_key", "unique", "scheduled")
"""What a schedule says of its jobs itself, and nobody else may."""


class Overlap(StrEnum):
    """What becomes of a tick while an earlier job of its schedule is unfinished."""

    SKIP = "skip"
    ONE = "one"
    ALL = "all"
    CANCEL = "cancel"


class ScheduleTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When jobs are made, and what is done about those that overlap or were missed.

    After an outage, ticks of the last `catch_up` seconds are made up for. A tick comes up to
    `jitter` seconds later.
    """

    timing: Timing
    overlap: Overlap = Overlap.SKIP
    catch_up: float = DEFAULT_CATCH_UP_SECONDS
    jitter: float = 0.0


class ScheduleDraft(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as a client wants it. The `id` of its job stands for nothing.

    `is_paused` is None to leave that as it is.
    """

    terms: ScheduleTerms
    job: Submission
    is_paused: bool | None = None


class Declaration(Struct, frozen=True, kw_only=True):
    """A schedule as an app declares it for one of its handlers, whose name it has.

    `started` is when the worker's process began: of two that differ, the later one counts.
    """

    type: str
    terms: ScheduleTerms
    payload: bytes
    worker_id: str
    started: float


class Schedule(JsonRecord, Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One schedule, as the store has it.

    `next` is the tick that comes next, None if there is none; `last` the one that was last decided
    on. `waiting` is a tick that waits for `unfinished` jobs, as far as these are known. `error`
    says why the last tick could not be made a job. `declared` is when the worker began whose app
    declares this schedule; one that a client has put has none.
    """

    name: str
    terms: ScheduleTerms
    job: Submission
    created: float
    updated: float
    namespace: str = ""
    is_paused: bool = False
    next: float | None = None
    last: float | None = None
    waiting: float | None = None
    unfinished: tuple[str, ...] = ()
    error: str = ""
    declared: float | None = None
    declared_by: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dict that `json.dumps` takes, with its job's payload decoded.

        Of a list, the payload is left out.
        """
        return {**super().as_dict(), "job": self.job.as_dict()}


class TickDecision(Struct, frozen=True, kw_only=True):
    """What to do about a schedule: cancel, insert, and then write the schedule as it is here.

    `missed` says that ticks were too old to be made up for, `skipped` how many met an unfinished
    job.
    """

    schedule: Schedule
    ticks: tuple[float, ...] = ()
    cancelled: tuple[str, ...] = ()
    skipped: int = 0
    missed: bool = False


# ---- what a schedule may be


def terms_faults(terms: ScheduleTerms) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the terms of a schedule: the field and the reason."""
    yield from timing_faults(terms.timing)
    if terms.overlap not in tuple(Overlap):
        yield "overlap", f"found {terms.overlap!r}; send one of {', '.join(Overlap)}"
    for field, most in (("catch_up", MAX_SECONDS), ("jitter", MAX_JITTER_SECONDS)):
        seconds = getattr(terms, field)
        if not isinstance(seconds, int | float) or not 0 <= seconds <= most:
            yield field, f"found {seconds!r}; send a number of seconds, 0 to {most:.0f}"


def draft_faults(name: str, draft: ScheduleDraft) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a schedule that a client wants: the field and the reason."""
    job = draft.job
    if not is_name(name):
        yield "name", f"found {name[:64]!r}; send {NAME_RULE}"
    yield from terms_faults(draft.terms)
    if not is_name(job.type):
        yield "type", f"found {job.type[:64]!r}; send {NAME_RULE}"
    if is_reserved(job.type):
        yield "type", f"found {job.type[:64]!r}; {RESERVED}"
    if len(job.payload) > MAX_PAYLOAD_BYTES:
        yield (
            "payload",
            f"{len(job.payload):,} bytes; at most {MAX_PAYLOAD_BYTES:,} are accepted; store the "
            "data elsewhere and send its address",
        )
    if job.run is not None and (fault := run_fault(job.run)):
        yield "run", fault
    for field in TICK_FIELDS:
        if getattr(job, field) is not None:
            yield field, "a schedule decides that for its jobs; leave it out"
    yield from option_faults(priority=job.priority, timeout=job.timeout, retry=job.retry)


# ---- what becomes of it


def put(
    known: Schedule | None, name: str, draft: ScheduleDraft, *, namespace: str, now: float
) -> Schedule:
    """Return a schedule as a client wants it; what was there goes on, with its ticks."""
    job = replace(draft.job, id=name, reply=False)
    if known is None:
        made = Schedule(
            name=name, terms=draft.terms, job=job, created=now, updated=now, namespace=namespace
        )
        if draft.is_paused:
            return replace(made, is_paused=True)
        return replace(made, next=next_tick(draft.terms.timing, now))
    is_same_timing = known.terms.timing == draft.terms.timing
    changed = replace(
        known, terms=draft.terms, job=job, declared=None, declared_by="", updated=now, error=""
    )
    is_paused = known.is_paused if draft.is_paused is None else draft.is_paused
    if is_paused:
        return paused(changed, now=now)
    if is_same_timing and not known.is_paused:
        return changed
    return resumed(replace(changed, is_paused=True), now=now)


def paused(known: Schedule, *, now: float) -> Schedule:
    """Return a schedule without ticks to come."""
    return replace(known, is_paused=True, next=None, waiting=None, updated=now)


def resumed(known: Schedule, *, now: float) -> Schedule:
    """Return a schedule that goes on with the next tick; those of its pause are left out."""
    if not known.is_paused:
        return known
    after = now if known.last is None else max(now, known.last)
    return replace(known, is_paused=False, next=next_tick(known.terms.timing, after), updated=now)


def declared(known: Schedule | None, declaration: Declaration, *, now: float) -> Schedule:
    """Return a schedule as a worker's app declares it, or as it is where that does not count.

    What a client has put stays, and so does what a worker declares that began later.
    """
    terms, name = declaration.terms, declaration.type
    started, by = declaration.started, declaration.worker_id
    if known is None:
        return Schedule(
            name=name,
            terms=terms,
            job=Submission(name, name, declaration.payload, reply=False),
            created=now,
            updated=now,
            next=next_tick(terms.timing, now),
            declared=started,
            declared_by=by,
        )
    if known.declared is None or started <= known.declared:
        return known
    if known.terms == terms:
        return replace(known, declared=started, declared_by=by)
    changed = replace(known, terms=terms, updated=now, error="", declared=started, declared_by=by)
    if known.is_paused or known.terms.timing == terms.timing:
        return changed
    return resumed(replace(changed, is_paused=True), now=now)


# ---- ticks


def due(schedule: Schedule) -> float | None:
    """Return when somebody must look at a schedule; None if never, by itself."""
    if schedule.is_paused or schedule.next is None:
        return None
    return _due(schedule, schedule.next)


def may_have_unknown_jobs(schedule: Schedule, *, now: float) -> bool:
    """True if a tick that is about to be passed over may be a job that the record does not list.

    Of several ticks that have come, overlap `cancel` makes the last a job. Somebody may have done
    so with an earlier one, and died before moving on.
    """
    if schedule.terms.overlap is not Overlap.CANCEL or schedule.next is None:
        return False
    following = next_tick(schedule.terms.timing, schedule.next)
    return not schedule.is_paused and following is not None and following <= now


def decide(
    schedule: Schedule,
    *,
    unfinished: Collection[str],
    now: float,
    most: int = MOST_TICKS,
    unknown: Mapping[float, str] = NOTHING,
) -> TickDecision:
    """Decide on the ticks that have come; `unfinished` are those of its jobs that have not ended.

    `unknown` are others that the schedule does not list, by their ticks. Nothing is to be done, and
    nothing to be written, where the schedule comes back as it was.
    """
    if schedule.is_paused:
        return TickDecision(schedule=schedule)
    come, following, missed = _come(schedule, now=now, most=most)
    still = tuple(job_id for job_id in schedule.unfinished if job_id in unfinished)
    is_one = schedule.terms.overlap is Overlap.ONE
    waiting, is_busy = schedule.waiting if is_one else None, bool(still)
    run: list[float] = []
    cancelled: tuple[str, ...] = ()
    match schedule.terms.overlap:
        case Overlap.ALL:
            run, still = come, ()
        case Overlap.SKIP:
            run = [] if is_busy else come[:1]
        case Overlap.CANCEL if come:
            unlisted = (unknown[tick] for tick in come[:-1] if tick in unknown)
            run, cancelled = come[-1:], (*still, *unlisted)
        case Overlap.ONE:
            line = [*([] if waiting is None else [waiting]), *come]
            run, line = ([], line) if is_busy else (line[:1], line[1:])
            waiting = line[0] if line else None
    waited = (schedule.waiting is not None) - (waiting is not None)
    moved = replace(
        schedule,
        next=following,
        last=come[-1] if come else schedule.last,
        waiting=waiting,
        unfinished=still,
    )
    is_moved = come or run or missed or waiting != schedule.waiting
    return TickDecision(
        schedule=moved if is_moved else schedule,
        ticks=tuple(run),
        cancelled=cancelled,
        skipped=len(come) + waited - len(run),
        missed=missed,
    )


def inserted(decision: TickDecision, job_ids: Collection[str], *, error: str = "") -> Schedule:
    """Return the schedule as it is to be written once its ticks are jobs, or could not be."""
    known = decision.schedule
    if known.terms.overlap is Overlap.ALL:
        return replace(known, error=error)
    return replace(known, unfinished=(*known.unfinished, *job_ids), error=error)


def tick_job(schedule: Schedule, tick: float, *, job_id: str) -> Submission:
    """Return the job of a tick: whoever makes it, it is one job."""
    return replace(
        schedule.job, id=job_id, unique_key=tick_key(schedule.name, tick), scheduled=tick
    )


def tick_key(name: str, tick: float) -> str:
    """Return the unique key of a tick's job, within the schedule's namespace."""
    return f"{tick_prefix(name)}{tick_text(tick)}"


def tick_prefix(name: str) -> str:
    """Return how the keys of all ticks begin; what follows is in the order of time."""
    return f"schedule/{name}/"


def refusal_in(receipt: Receipt) -> str:
    """Return why a job was refused, without its name: the next tick's job has another one."""
    reason = receipt.reason.removeprefix(f"job {receipt.job_id}: ")
    return reason.removeprefix(f"{receipt.field}: ")


def _come(schedule: Schedule, *, now: float, most: int) -> tuple[list[float], float | None, bool]:
    """Return the ticks that have come, the one that follows, and whether older ones are dropped."""
    timing, tick = schedule.terms.timing, schedule.next
    oldest = now - max(schedule.terms.catch_up, ON_TIME_SECONDS)
    missed = tick is not None and _due(schedule, tick) < oldest
    if missed:
        first = next_tick(timing, oldest - schedule.terms.jitter - 0.001)
        tick = first if first is None or tick is None else max(tick, first)
    come: list[float] = []
    while tick is not None and len(come) < most and (at := _due(schedule, tick)) <= now:
        if at >= oldest:
            come.append(tick)
        tick = next_tick(timing, tick)
    return come, tick, missed


def _due(schedule: Schedule, tick: float) -> float:
    return tick + offset(schedule.name, tick, schedule.terms.jitter)
