"""What all dispatchers know of the limits of one type: declared by workers, changed by people. Pure.

Kept as a record for each type, for as long as the store is. Of two workers that declare different
limits, the one that was started later counts.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shunter.model.job_limits import JobLimits
from shunter.model.record import Record, RecordKind


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
