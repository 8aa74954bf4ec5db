"""What dispatchers did in the last hour: a small record for each minute of each of them. Pure.

Whoever wants to know how much the whole system does reads these, and no job. A minute that is
over never changes. Kept for an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.record import Record, RecordKind

SLOT_SECONDS = 10
SLOTS = 60 // SLOT_SECONDS
KEPT_MINUTES = 60

MOST_TYPES = 50
"""Of how many types a minute has figures; all others are counted together."""

MOST_ERRORS = 20
"""How many different errors a minute has."""

OTHERS = "(others)"

BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Upper bounds of spans in seconds: two to a decade, since orders of magnitude are what people
look for."""


class JobCounts(Struct, frozen=True, omit_defaults=True, array_like=True):
    """How many jobs came in, and how many ended in which way; `lost` counts runs."""

    accepted: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    lost: int = 0

    def plus(self, other: JobCounts) -> JobCounts:
        return JobCounts(*map(sum, zip(_fields(self), _fields(other), strict=True)))

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled


class Spans(Struct, frozen=True, omit_defaults=True, array_like=True):
    """How many spans lay up to each of the bounds, and beyond the last; and their sum."""

    counts: tuple[int, ...] = ()
    total: float = 0.0

    def plus(self, other: Spans) -> Spans:
        longest = max(self.counts, other.counts, key=len)
        pairs = zip(
            _padded(self.counts, len(longest)), _padded(other.counts, len(longest)), strict=True
        )
        return Spans(tuple(a + b for a, b in pairs), self.total + other.total)

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """Return the bound up to which this share of all spans lay; None if there are none."""
        below, wanted = 0, share * self.count
        for place, count in enumerate(self.counts):
            below += count
            if count and below >= wanted:
                return BOUNDS[place] if place < len(BOUNDS) else float("inf")
        return None


class TypeActivity(Struct, frozen=True, omit_defaults=True, array_like=True):
    """How long jobs of a type waited and ran, and how many of them failed."""

    waits: Spans = Spans()
    runs: Spans = Spans()
    failed: int = 0

    def plus(self, other: TypeActivity) -> TypeActivity:
        return TypeActivity(
            self.waits.plus(other.waits), self.runs.plus(other.runs), self.failed + other.failed
        )


class RecentError(Struct, frozen=True, omit_defaults=True, array_like=True):
    """How often jobs of a type failed of the same, and the last of these jobs."""

    type: str
    error: str
    count: int
    job_id: str
    at: float

    def plus(self, other: RecentError) -> RecentError:
        latest = max(self, other, key=lambda it: it.at)
        return replace(latest, count=self.count + other.count)


class Durations(Struct, frozen=True, omit_defaults=True, array_like=True):
    """How often something was done, for how long in all, and for how long at most."""

    count: int = 0
    total: float = 0.0
    longest: float = 0.0

    def plus(self, other: Durations) -> Durations:
        return Durations(
            self.count + other.count,
            self.total + other.total,
            max(self.longest, other.longest),
        )

    def with_one(self, seconds: float) -> Durations:
        return self.plus(Durations(1, seconds, seconds))

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class ActivityMinute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One minute of one dispatcher; `slots` are the counts of its parts, SLOT_SECONDS each."""

    dispatcher_id: str
    minute: int
    slots: tuple[JobCounts, ...] = (JobCounts(),) * SLOTS
    types: dict[str, TypeActivity] = {}
    errors: tuple[RecentError, ...] = ()
    turns: Durations = Durations()
    commits: Durations = Durations()
    workers: int = 0
    version: str = ""
    started: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.minute:010d}/{self.dispatcher_id}"


def minute_of(now: float) -> int:
    return int(now // 60)


def oldest_name(now: float) -> str:
    """Return a name before all records that are kept."""
    return f"{minute_of(now) - KEPT_MINUTES:010d}"


def activity_record(minute: ActivityMinute, revision: int) -> Record:
    document = msgspec.json.encode(minute)
    return Record(kind=RecordKind.ACTIVITY, name=minute.name, revision=revision, document=document)


def activity_in(records: Iterable[Record]) -> list[ActivityMinute]:
    """Read records; one that another version has written otherwise hides no others."""
    found = []
    for record in records:
        try:
            found.append(msgspec.json.decode(record.document or b"{}", type=ActivityMinute))
        except msgspec.MsgspecError:
            continue
    return found


def counts_by_slot(minutes: Iterable[ActivityMinute], *, now: float) -> list[JobCounts]:
    """Return what all did in the last hour, one slot after the other, up to the one of now."""
    last = int(now // SLOT_SECONDS)
    line = [JobCounts()] * (KEPT_MINUTES * SLOTS)
    for minute in minutes:
        for place, counts in enumerate(minute.slots):
            at = len(line) - 1 - (last - minute.minute * SLOTS - place)
            if 0 <= at < len(line):
                line[at] = line[at].plus(counts)
    return line


def by_type(minutes: Iterable[ActivityMinute]) -> dict[str, TypeActivity]:
    """Return what became of jobs, by type."""
    found: dict[str, TypeActivity] = {}
    for minute in minutes:
        for kind, activity in minute.types.items():
            found[kind] = found[kind].plus(activity) if kind in found else activity
    return found


def errors_in(minutes: Iterable[ActivityMinute]) -> list[RecentError]:
    """Return of what jobs failed, the most frequent first."""
    return sorted(
        merged(error for minute in minutes for error in minute.errors),
        key=lambda it: (-it.count, -it.at),
    )


def merged(errors: Iterable[RecentError]) -> list[RecentError]:
    """Return errors with equal ones counted together."""
    found: dict[tuple[str, str], RecentError] = {}
    for error in errors:
        known = found.get((error.type, error.error))
        found[error.type, error.error] = error if known is None else known.plus(error)
    return list(found.values())


def _fields(counts: JobCounts) -> tuple[int, ...]:
    return (counts.accepted, counts.completed, counts.failed, counts.cancelled, counts.lost)


def _padded(counts: Sequence[int], length: int) -> tuple[int, ...]:
    return (*counts, *(0 for _ in range(length - len(counts))))
