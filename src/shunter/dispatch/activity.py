"""What this dispatcher does, minute by minute, for people who watch the whole system. Pure.

Nothing is counted for it job by job: now and then the counters and histograms that are there
anyway are compared with what they were. Only errors are noted as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from shunter.dispatch.timings import Histogram, Timings
from shunter.model.activity import (
    MOST_ERRORS,
    MOST_TYPES,
    OTHERS,
    SLOT_SECONDS,
    SLOTS,
    ActivityMinute,
    Durations,
    JobCounts,
    RecentError,
    Spans,
    TypeActivity,
    merged,
    minute_of,
)
from shunter.model.job import Job, in_one_line

_COUNTED = ("jobs_accepted", "jobs_completed", "jobs_failed", "jobs_cancelled", "jobs_lost")

SHOWN_CHARACTERS = 160
"""How much of an error's text tells one from another."""


class ActivityLog:
    """Follows one dispatcher."""

    def __init__(self, dispatcher_id: str, *, version: str = "", started: float = 0.0) -> None:
        self._minute = ActivityMinute(
            dispatcher_id=dispatcher_id, minute=0, version=version, started=started
        )
        self._counts: Counter[str] = Counter()
        self._spans: dict[tuple[str, str], Spans] = {}
        self._errors: list[RecentError] = []
        self._failed: Counter[str] = Counter()
        self._turns = self._commits = Durations()

    def took_turn(self, seconds: float, commit: float | None) -> None:
        """Note how long a turn took, and its commit if it had one."""
        self._turns = self._turns.with_one(seconds)
        if commit is not None:
            self._commits = self._commits.with_one(commit)

    def job_failed(self, job: Job, *, now: float) -> None:
        """Note that a job failed for good."""
        self._failed[job.type] += 1
        error = in_one_line(job.error)[:SHOWN_CHARACTERS]
        self._errors.append(RecentError(job.type, error, 1, job.id, now))
        if len(self._errors) > 10 * MOST_ERRORS:
            self._errors = _most_frequent(self._errors)

    def minute(
        self, counters: Mapping[str, int], timings: Timings, *, workers: int, now: float
    ) -> ActivityMinute:
        """Return the minute of now, with all that was done since the last look."""
        if self._minute.minute != minute_of(now):
            self._minute = ActivityMinute(
                dispatcher_id=self._minute.dispatcher_id,
                minute=minute_of(now),
                version=self._minute.version,
                started=self._minute.started,
            )
        slot = int(now // SLOT_SECONDS) % SLOTS
        slots = list(self._minute.slots)
        slots[slot] = slots[slot].plus(self._counted(counters))
        self._minute = replace(
            self._minute,
            slots=tuple(slots),
            types=self._types(timings),
            errors=tuple(_most_frequent([*self._minute.errors, *self._errors])),
            turns=self._minute.turns.plus(self._turns),
            commits=self._minute.commits.plus(self._commits),
            workers=workers,
        )
        self._turns = self._commits = Durations()
        self._errors = []
        return self._minute

    def _counted(self, counters: Mapping[str, int]) -> JobCounts:
        counts = [counters.get(name, 0) - self._counts[name] for name in _COUNTED]
        self._counts.update(dict(zip(_COUNTED, counts, strict=True)))
        return JobCounts(*counts)

    def _types(self, timings: Timings) -> dict[str, TypeActivity]:
        types = dict(self._minute.types)
        waits = {kind: self._since("wait", kind, it) for kind, it in timings.dispatch.items()}
        runs = {kind: self._since("run", kind, it) for kind, it in timings.run.items()}
        for kind in sorted({*waits, *runs, *self._failed}):
            done = TypeActivity(
                waits.get(kind, Spans()), runs.get(kind, Spans()), self._failed[kind]
            )
            if done == TypeActivity():
                continue
            name = kind if kind in types or len(types) < MOST_TYPES else OTHERS
            types[name] = types.get(name, TypeActivity()).plus(done)
        self._failed.clear()
        return types

    def _since(self, part: str, kind: str, histogram: Histogram) -> Spans:
        """Return what a histogram has that it did not have at the last look."""
        before = self._spans.get((part, kind), Spans())
        now = Spans(tuple(histogram.counts), histogram.total)
        if now.count == before.count:
            return Spans()
        self._spans[part, kind] = now
        return now.plus(Spans(tuple(-count for count in before.counts), -before.total))


def _most_frequent(errors: list[RecentError]) -> list[RecentError]:
    """Return the errors that were met most often; what is left out is counted as others."""
    found = sorted(merged(errors), key=lambda it: (it.error == OTHERS, -it.count, -it.at))
    if len(found) <= MOST_ERRORS:
        return found
    rest = [replace(it, type=OTHERS, error=OTHERS) for it in found[MOST_ERRORS - 1 :]]
    return [*found[: MOST_ERRORS - 1], *merged(rest)]
