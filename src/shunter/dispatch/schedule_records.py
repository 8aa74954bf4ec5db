"""Schedules as records of the store, and how dispatchers hear of those that were changed.

A record is named by namespace and name. Who makes, changes or removes a schedule notes its name in
the *edition*, one small record that every dispatcher reads again and again: its revision says how
many notes there are that one has not seen, and the last of them are in it. Moving on to the next
tick is no such change. A writer that dies before its note is made up for by reading all at times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from shunter.errors import ScheduleNotFound, StoreError
from shunter.model.record import Record, RecordKind
from shunter.model.schedule import Schedule
from shunter.model.timing import offset
from shunter.store.port import Store

EDITION_NAME = "schedule"
NOTES_KEPT = 64
MAX_TRIES = 50

Decide = Callable[[Schedule | None], Schedule]
"""What becomes of a schedule, which may not be there; the same again leaves it as it is."""


class ScheduleEdition(Struct, frozen=True):
    """How often schedules were changed, and the last of these by name; None was many at once."""

    number: int = 0
    notes: tuple[str | None, ...] = ()

    def since(self, number: int) -> list[str] | None:
        """Return the records that changed since an edition; None if all must be read."""
        behind = self.number - number
        missed = self.notes[len(self.notes) - behind :] if behind else ()
        if not 0 <= behind <= len(self.notes) or None in missed:
            return None
        return sorted({name for name in missed if name is not None})


class _DialTerms(Struct):
    jitter: float = 0.0


class ScheduleDial(Struct):
    """What a timetable needs of a schedule: read without the rest, since there may be many."""

    name: str
    terms: _DialTerms
    is_paused: bool = False
    next: float | None = None
    waiting: float | None = None
    declared: float | None = None

    def look_at(self, *, now: float) -> float | None:
        """Return when to look at the schedule; now, if a tick waits for an earlier job."""
        if self.is_paused:
            return None
        if self.waiting is not None:
            return now
        if self.next is None:
            return None
        return self.next + offset(self.name, self.next, self.terms.jitter)


def record_name(namespace: str, name: str) -> str:
    """Return the name of a schedule's record; a namespace has no slash in it."""
    return f"{namespace}/{name}"


def record_of(schedule: Schedule, revision: int) -> Record:
    """Write a schedule as a record."""
    return Record(
        kind=RecordKind.SCHEDULE,
        name=record_name(schedule.namespace, schedule.name),
        revision=revision,
        document=msgspec.json.encode(schedule),
    )


def schedule_in(record: Record) -> Schedule:
    """Read a record, or raise a StoreError that says why it can't be read here."""
    try:
        return msgspec.json.decode(record.document or b"", type=Schedule)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(
            f"schedule {record.name!r} can't be read here ({error}); put it again, or remove it"
        ) from None


async def find_records(store: Store, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of these names that are there."""
    found = await store.records(RecordKind.SCHEDULE, names=names) if names else ()
    return {record.name: record for record in found}


async def change_schedule(store: Store, namespace: str, name: str, decide: Decide) -> Schedule:
    """Decide on one schedule, again if others wrote first, and tell all dispatchers."""
    wanted = record_name(namespace, name)
    for _ in range(MAX_TRIES):
        stored = (await find_records(store, [wanted])).get(wanted)
        known = None if stored is None else schedule_in(stored)
        decided = decide(known)
        if decided is known:
            return decided
        revision = 1 if stored is None else stored.revision + 1
        [is_written] = await store.swap_records([record_of(decided, revision)])
        if is_written:
            await announce(store, [wanted])
            return decided
    raise StoreError(f"schedule {name!r} is being changed all the time; try again later")


async def remove_schedule(store: Store, namespace: str, name: str) -> None:
    """Remove a schedule, also one that can't be read; raise ScheduleNotFound if there is none."""
    wanted = record_name(namespace, name)
    for _ in range(MAX_TRIES):
        stored = (await find_records(store, [wanted])).get(wanted)
        if stored is None:
            raise ScheduleNotFound(name)
        gone = Record(kind=RecordKind.SCHEDULE, name=wanted, revision=stored.revision + 1)
        [is_gone] = await store.swap_records([gone])
        if is_gone:
            await announce(store, [wanted])
            return
    raise StoreError(f"schedule {name!r} is being changed all the time; try again later")


async def read_edition(store: Store) -> ScheduleEdition:
    """Return the last edition; number 0 before the first schedule."""
    found = await store.records(RecordKind.EDITION, names=[EDITION_NAME])
    for record in found:
        notes = msgspec.json.decode(record.document or b"[]", type=tuple[str | None, ...])
        return ScheduleEdition(record.revision, notes)
    return ScheduleEdition()


async def announce(store: Store, names: Sequence[str]) -> None:
    """Note that these records were changed. Who never gets to it is made up for by full reads."""
    for _ in range(MAX_TRIES):
        known = await read_edition(store)
        notes = (*known.notes, names[0] if len(names) == 1 else None)[-NOTES_KEPT:]
        noted = Record(
            kind=RecordKind.EDITION,
            name=EDITION_NAME,
            revision=known.number + 1,
            document=msgspec.json.encode(notes),
        )
        [is_written] = await store.swap_records([noted])
        if is_written:
            return
