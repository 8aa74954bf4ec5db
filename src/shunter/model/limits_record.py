"""What all dispatchers know of a type's limits: declared by workers, changed by people. Pure.

Kept as a record for each type, for as long as the store is. Of two workers that declare different
limits, the one that was started later counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job_limits import JobLimits, Limit, Rate
from shunter.model.json_record import JsonRecord
from shunter.model.record import Record, RecordKind


class LaneCount(Struct, frozen=True, kw_only=True):
    """How many jobs of a lane are under way, and how many could be claimed."""

    type: str
    lane: str
    running: int = 0
    waiting: int = 0


class LimitsChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people want changed of a type's limits; None leaves a part as it is.

    A number of 0 takes its limit away, an empty `fair` the turns. `is_default` takes back whatever
    was changed before, and what workers declare counts again.
    """

    limit: int | None = None
    by: str | None = None
    total: int | None = None
    rate: int | None = None
    per: float | None = None
    fair: str | None = None
    is_default: bool = False

    @property
    def is_empty(self) -> bool:
        """True if it says nothing."""
        return self == LimitsChange()


class TypeLimits(JsonRecord, Struct, frozen=True, kw_only=True):
    """The limits of a type as they are shown, with the lanes that have the most jobs."""

    type: str
    limits: JobLimits
    declared: JobLimits
    declared_by: str
    is_changed: bool
    lanes: tuple[LaneCount, ...] = ()


class LimitsRecord(Struct, frozen=True, omit_defaults=True):
    """The limits of one type.

    `declared_by` is the worker whose declaration counts, and `started` when that one was started,
    by its own clock. What was `changed` goes before what was declared.
    """

    declared: JobLimits = JobLimits()
    declared_by: str = ""
    started: float = 0.0
    changed: JobLimits | None = None
    revision: int = 0

    @property
    def limits(self) -> JobLimits:
        """Those that count."""
        return self.declared if self.changed is None else self.changed

    def declares(self, limits: JobLimits, *, worker_id: str, started: float) -> LimitsRecord:
        """Return the record after a worker has declared limits: only a later one changes it."""
        if self.declared_by and (started < self.started or limits == self.declared):
            return self
        return replace(
            self,
            declared=limits,
            declared_by=worker_id,
            started=started,
            revision=self.revision + 1,
        )

    def with_change(self, limits: JobLimits | None) -> LimitsRecord:
        """Return the record after people have changed the limits, or taken that back."""
        return replace(self, changed=limits, revision=self.revision + 1)


def after_change(before: JobLimits, change: LimitsChange) -> JobLimits:
    """Return the limits as they are to be; `limit_faults` says what is wrong with them."""
    limit, rate = before.limit or Limit(), before.rate or Rate(0)
    by = change.by if change.by is not None else before.key
    if change.limit is not None:
        limit = replace(limit, at_once=change.limit or None, by=by if change.limit else "")
    elif change.by is not None and limit.by:
        limit = replace(limit, by=by)
    if change.total is not None:
        limit = replace(limit, total=change.total or None)
    if change.rate is not None:
        rate = replace(rate, count=change.rate, by=rate.by or change.by or "")
    if change.by is not None and rate.by:
        rate = replace(rate, by=change.by)
    if change.per is not None:
        rate = replace(rate, per=change.per)
    is_limited = limit.at_once is not None or limit.total is not None
    is_rated = rate.count != 0 or (change.per is not None and change.rate is None)
    fair = before.fair if change.fair is None else change.fair
    if change.by is not None and change.fair is None and fair:
        fair = change.by
    return JobLimits(
        limit=limit if is_limited else None, rate=rate if is_rated else None, fair=fair
    )


def change_faults(change: LimitsChange, after: JobLimits) -> Iterator[tuple[str, str]]:
    """Yield what a change says that changes nothing; `after` is what it leads to."""
    if change.is_empty:
        yield "change", "found nothing; say limit, by, total, rate, per or fair"
    elif change.by and after.key != change.by:
        yield (
            "by",
            f"found {change.by!r}, and nothing that goes by a key; say limit or rate beside it",
        )


def limits_record(record: Record) -> LimitsRecord:
    """Read what a store keeps."""
    found = msgspec.json.decode(record.document or b"{}", type=LimitsRecord)
    return replace(found, revision=record.revision)


def record_of(job_type: str, limits: LimitsRecord) -> Record:
    """Write it for the store."""
    document = msgspec.json.encode(replace(limits, revision=0))
    return Record(
        kind=RecordKind.LIMITS, name=job_type, revision=limits.revision, document=document
    )
