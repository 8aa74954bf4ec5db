"""Limits as people see and change them, over the store: read, decide, compare and swap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from shunter.errors import LimitsRefused, StoreError
from shunter.model.identity import NAME_RULE, is_name
from shunter.model.job_limits import JobLimits, limit_faults
from shunter.model.limits_record import (
    LaneCount,
    LimitsChange,
    LimitsRecord,
    TypeLimits,
    after_change,
    change_faults,
    limits_record,
    record_of,
)
from shunter.model.record import RecordKind
from shunter.store.port import Store

MOST_TRIES = 20
MOST_LANES = 1000
LIMITS_HOLD = "limits hold for all"
"""Why a key of a namespace may not change them."""


async def shown_limits(store: Store) -> list[TypeLimits]:
    """Return all types that are or were limited, with who holds what."""
    lanes: defaultdict[str, list[LaneCount]] = defaultdict(list)
    for counted in await store.lane_counts(limit=MOST_LANES):
        lanes[counted.type].append(counted)
    found = await store.records(RecordKind.LIMITS)
    return [
        _shown(record.name, limits_record(record), tuple(lanes[record.name]))
        for record in reversed(found)
    ]


async def change_limits(store: Store, job_type: str, change: LimitsChange) -> TypeLimits:
    """Change the limits of a type, for all dispatchers; raise LimitsRefused if they can't be so."""

    def wanted(before: JobLimits) -> JobLimits | None:
        if change.is_default:
            return None
        after = after_change(before, change)
        for field, reason in change_faults(change, after):
            raise LimitsRefused(job_type, field, reason)
        return after

    return await _swapped(store, job_type, wanted)


async def put_limits(store: Store, job_type: str, limits: JobLimits | None) -> TypeLimits:
    """Let these limits count for all dispatchers; None lets those count that are declared."""
    return await _swapped(store, job_type, lambda _: limits)


async def _swapped(
    store: Store, job_type: str, wanted_after: Callable[[JobLimits], JobLimits | None]
) -> TypeLimits:
    if not is_name(job_type):
        raise LimitsRefused(job_type[:64], "type", f"found {job_type[:64]!r}; send {NAME_RULE}")
    for _ in range(MOST_TRIES):
        found = await store.records(RecordKind.LIMITS, names=[job_type])
        before = limits_record(found[0]) if found else LimitsRecord()
        wanted = wanted_after(before.limits)
        for field, reason in () if wanted is None else limit_faults(wanted):
            raise LimitsRefused(job_type, field, reason)
        now = before.with_change(wanted)
        if not found and wanted is None:
            return _shown(job_type, before)
        if all(await store.swap_records([record_of(job_type, now)])):
            return _shown(job_type, now)
    raise StoreError(f"the limits of {job_type} are being changed all the time; try again later")


def _shown(job_type: str, record: LimitsRecord, lanes: tuple[LaneCount, ...] = ()) -> TypeLimits:
    return TypeLimits(
        type=job_type,
        limits=record.limits,
        declared=record.declared,
        declared_by=record.declared_by,
        is_changed=record.changed is not None,
        lanes=lanes,
    )
