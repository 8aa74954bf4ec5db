"""Writes a dispatcher's minutes into the store: the one of now again and again, if it has news."""

from __future__ import annotations

from msgspec.structs import replace

from shunter.model.activity import ActivityMinute, Durations, activity_record
from shunter.model.record import RecordKind
from shunter.store.port import Store


class ActivityWriter:
    """Knows what was written last; nobody else writes the same records."""

    def __init__(self) -> None:
        self._written: ActivityMinute | None = None
        self._revision = 0

    async def write(self, store: Store, minute: ActivityMinute) -> None:
        """Write a minute unless it stands there; one that met a fault is written the next time."""
        if self._written is not None and self._written.name != minute.name:
            self._written, self._revision = None, 0
        if self._written is not None and _news(minute) == _news(self._written):
            return
        record = activity_record(minute, self._revision + 1)
        (is_written,) = await store.swap_records([record])
        if is_written:
            self._written, self._revision = minute, record.revision
        else:  # an earlier try succeeded without an answer
            found = await store.records(RecordKind.ACTIVITY, names=[minute.name])
            self._revision = found[0].revision if found else 0


def _news(minute: ActivityMinute) -> ActivityMinute:
    """What is worth a write: turns are taken also while nothing happens."""
    return replace(minute, turns=Durations(), commits=Durations())
