"""What is shown of schedules. Pure."""

from __future__ import annotations

from msgspec import Struct

from shunter.model.schedule import Schedule
from shunter.model.timing import Cron, Timing, next_tick
from shunter.page.figures import span_text

SHOWN_TICKS = 3
MORE_TICKS = 10


class ScheduleRow(Struct, frozen=True):
    """One schedule: when it ticks, and what became of its last tick. `id` has its namespace."""

    id: str
    name: str
    namespace: str
    type: str
    timing: str
    ticks: tuple[float, ...]
    last: float | None
    is_paused: bool
    is_waiting: bool
    overlap: str
    error: str
    declared_by: str


def schedule_row(schedule: Schedule) -> ScheduleRow:
    return ScheduleRow(
        f"{schedule.namespace}/{schedule.name}",
        schedule.name,
        schedule.namespace,
        schedule.job.type,
        timing_text(schedule.terms.timing),
        ticks_of(schedule),
        schedule.last,
        schedule.is_paused,
        schedule.waiting is not None,
        str(schedule.terms.overlap),
        schedule.error,
        schedule.declared_by,
    )


def timing_text(timing: Timing) -> str:
    """Say when a schedule ticks."""
    if isinstance(timing, Cron):
        return timing.text if timing.tz == "UTC" else f"{timing.text} {timing.tz}"
    return f"every {span_text(timing.seconds)}"


def ticks_of(schedule: Schedule, most: int = SHOWN_TICKS) -> tuple[float, ...]:
    """The ticks that come next."""
    found: list[float] = []
    tick = None if schedule.is_paused else schedule.next
    while tick is not None and len(found) < most:
        found.append(tick)
        tick = next_tick(schedule.terms.timing, tick)
    return tuple(found)
