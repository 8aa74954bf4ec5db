"""What the overview says: figures of the whole system, from what the store tells. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from shunter.model.activity import (
    KEPT_MINUTES,
    SLOT_SECONDS,
    SLOTS,
    ActivityMinute,
    Durations,
    JobCounts,
    RecentError,
    Spans,
    TypeActivity,
    by_type,
    counts_by_slot,
    errors_in,
    minute_of,
)
from shunter.model.pause import Pause, PauseTarget
from shunter.model.presence import ALIVE_SECONDS, Presence
from shunter.model.worker import Worker
from shunter.page.plots import Plot, PlotLine, Points
from shunter.store.search import QueueDepth

SHOWN_ERRORS = 12
SHOWN_TYPES = 100
RECENT_MINUTES = 5


class TypeRow(Struct, frozen=True):
    """One type of job: what waits, what runs, and how the last hour went."""

    type: str
    waiting: int
    delayed: int
    running: int
    oldest: float | None
    ended: int
    failed: int
    waits: Spans
    runs: Spans
    workers: int
    is_paused: bool
    parked: int = 0


class DispatcherRow(Struct, frozen=True):
    """One dispatcher: whether it is here, and how long its turns and commits took of late.

    `behind` is by how much its clock is behind that of the dispatcher that serves the page; None if
    that is not known. `last_seen` is by the clock of that one.
    """

    id: str
    is_alive: bool
    last_seen: float
    behind: float | None
    host: str
    version: str
    started: float
    workers: int
    ended: int
    turns: Durations
    commits: Durations


class Figures(Struct, frozen=True):
    """The system in a few numbers. Rates are of the last full minute of slots."""

    ended_per_second: float
    accepted_per_second: float
    hour: JobCounts
    waiting: int
    delayed: int
    running: int
    slots: int
    workers: int
    drained: int
    dispatchers: int
    waits: Spans
    runs: Spans
    parked: int = 0


def type_rows(
    depths: Sequence[QueueDepth],
    minutes: Iterable[ActivityMinute],
    workers: Iterable[Worker],
    pauses: Iterable[Pause],
) -> list[TypeRow]:
    """Return the types that have jobs, had some in the last hour, or have workers."""
    activity, known = by_type(minutes), {depth.type: depth for depth in depths}
    alive = [worker for worker in workers if worker.state == "alive"]
    serving = Counter(kind for worker in alive for kind in worker.types)
    handled = {handler.type for worker in alive for handler in worker.handlers}
    paused = {pause.name for pause in pauses if pause.target is PauseTarget.TYPE}
    rows = []
    for kind in {*known, *activity, *handled, *paused}:
        depth, done = known.get(kind, QueueDepth(type=kind)), activity.get(kind, TypeActivity())
        rows.append(
            TypeRow(
                kind,
                depth.waiting,
                depth.delayed,
                depth.running,
                depth.oldest,
                max(done.runs.count, done.failed),
                done.failed,
                done.waits,
                done.runs,
                serving[kind],
                kind in paused,
                depth.parked,
            )
        )
    rows.sort(key=lambda it: (-it.waiting, -it.running, -it.parked, -it.ended, it.type))
    return rows[:SHOWN_TYPES]


def dispatcher_rows(
    presences: Iterable[Presence],
    minutes: Sequence[ActivityMinute],
    skews: Mapping[str, float],
    *,
    now: float,
) -> list[DispatcherRow]:
    """Return all dispatchers of the last day, those that are here first.

    `skews` says by how much our clock is ahead of others'.
    """
    rows = []
    for presence in presences:
        behind = skews.get(presence.dispatcher_id)
        last_seen = presence.clock + (behind or 0.0)
        own = [it for it in minutes if it.dispatcher_id == presence.dispatcher_id]
        recent = [it for it in own if it.minute > minute_of(now) - RECENT_MINUTES]
        latest = max(own, key=lambda it: it.minute, default=None)
        turns = commits = Durations()
        for minute in recent:
            turns, commits = turns.plus(minute.turns), commits.plus(minute.commits)
        rows.append(
            DispatcherRow(
                presence.dispatcher_id,
                now - last_seen < ALIVE_SECONDS,
                last_seen,
                None if behind is None else round(behind, 1),
                presence.host,
                latest.version if latest else "",
                latest.started if latest else 0.0,
                latest.workers if latest else 0,
                sum(slot.ended for it in own for slot in it.slots),
                turns,
                commits,
            )
        )
    return sorted(rows, key=lambda it: (not it.is_alive, -it.last_seen, it.id))


def figures(
    types: Sequence[TypeRow],
    minutes: Sequence[ActivityMinute],
    workers: Sequence[Worker],
    dispatchers: Iterable[DispatcherRow],
    pauses: Iterable[Pause],
    *,
    now: float,
) -> Figures:
    """Return the system in a few numbers."""
    line = counts_by_slot(minutes, now=now)
    hour = JobCounts()
    for counts in line:
        hour = hour.plus(counts)
    full = line[-7:-1]  # the slot of now has only begun
    seconds = len(full) * SLOT_SECONDS
    waits = runs = Spans()
    for row in types:
        waits, runs = waits.plus(row.waits), runs.plus(row.runs)
    alive = [worker for worker in workers if worker.state == "alive"]
    drained = {pause.name for pause in pauses if pause.target is not PauseTarget.TYPE}
    return Figures(
        sum(it.ended for it in full) / seconds,
        sum(it.accepted for it in full) / seconds,
        hour,
        sum(row.waiting for row in types),
        sum(row.delayed for row in types),
        sum(row.running for row in types),
        sum(worker.max_jobs for worker in alive),
        len(alive),
        sum(worker.id in drained or worker.version in drained for worker in alive),
        sum(row.is_alive for row in dispatchers),
        waits,
        runs,
        sum(row.parked for row in types),
    )


def plots(minutes: Sequence[ActivityMinute], *, now: float) -> dict[str, Plot]:
    """Return the last hour: what came and ended, failures, and how long turns took."""
    line = counts_by_slot(minutes, now=now)[:-1]  # the slot of now has only begun
    start = (int(now // SLOT_SECONDS) - len(line)) * SLOT_SECONDS
    turns, commits = _means_by_minute(minutes, now=now)

    def slots(*columns: Iterable[float]) -> Points:
        return Points(start, SLOT_SECONDS, tuple(tuple(column) for column in columns))

    return {
        "throughput": Plot(
            "Jobs a second",
            "/s",
            (PlotLine("ended", "ended"), PlotLine("accepted", "came in")),
            slots(
                (it.ended / SLOT_SECONDS for it in line),
                (it.accepted / SLOT_SECONDS for it in line),
            ),
        ),
        "failures": Plot(
            "Failures a minute",
            "/min",
            (PlotLine("failed", "failed"), PlotLine("lost", "lost runs")),
            slots((it.failed * SLOTS for it in line), (it.lost * SLOTS for it in line)),
        ),
        "turns": Plot(
            "Mean times",
            "ms",
            (PlotLine("turns", "turns"), PlotLine("commits", "commits")),
            Points(60 * (minute_of(now) - KEPT_MINUTES + 1), 60, (turns, commits)),
        ),
    }


def errors(minutes: Iterable[ActivityMinute]) -> list[RecentError]:
    """Return of what jobs failed in the last hour, the most frequent first."""
    return errors_in(minutes)[:SHOWN_ERRORS]


def _means_by_minute(
    minutes: Iterable[ActivityMinute], *, now: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return how many milliseconds turns and commits took in each minute of the last hour."""
    turns: dict[int, Durations] = {}
    commits: dict[int, Durations] = {}
    for it in minutes:
        turns[it.minute] = turns.get(it.minute, Durations()).plus(it.turns)
        commits[it.minute] = commits.get(it.minute, Durations()).plus(it.commits)
    last = minute_of(now)

    def means(of: dict[int, Durations]) -> tuple[float, ...]:
        return tuple(
            round(1000 * (of.get(at, Durations()).mean or 0.0), 2)
            for at in range(last - KEPT_MINUTES + 1, last + 1)
        )

    return means(turns), means(commits)
