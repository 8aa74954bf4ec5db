"""Which jobs of a type have ended and were not given out yet, found by listing.

A listing is in the order in which jobs were stored, newest first; jobs end in any order. So it is
read back to a *mark*: no job that was created before it is still to come. Of those created behind
the mark, the ids that were given out are known. Whenever these have become many, the mark moves
on, up to the oldest job that has not ended.
Must not know threads, sockets or positions of flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from shunter.model.job import FINAL, Job, Status

LISTED_AT_ONCE = 1000
SLACK_SECONDS = 60.0
"""By how much the order of storing may differ from that of the times of creation."""
FEW = 1000

Listing = Callable[[Status | None, str | None], list[Job]]
"""Lists jobs of a status, or of any, stored before the job with an id; up to a thousand."""


class Ended(NamedTuple):
    """A job that has ended. Once it is given out, nothing before `mark` is still to come."""

    id: str
    created: float
    mark: float


class Harvest:
    """`given` are the ids behind the mark that were given out, with their times of creation."""

    def __init__(
        self,
        listing: Listing,
        *,
        statuses: Collection[Status] = FINAL,
        mark: float = 0.0,
        given: Mapping[str, float] | None = None,
    ) -> None:
        self._listing, self._statuses = listing, statuses
        self._mark = mark
        self._given = dict(given or {})
        self._many = 0

    def round(self) -> Iterator[Ended]:
        """Yield the jobs that have ended since the last round, in the order of their creation."""
        is_due = len(self._given) >= self._many
        limit, found = self._everything() if is_due else (0.0, self._only_ended())
        for created, job_id in sorted(found):
            self._given[job_id] = created
            self._move_mark(min(created, limit))
            yield Ended(job_id, created, self._mark)
        if is_due:
            self._move_mark(limit)
            self._given = {job_id: at for job_id, at in self._given.items() if at >= self._mark}
            self._many = 2 * len(self._given) + FEW

    def _everything(self) -> tuple[float, list[tuple[float, str]]]:
        """Return up to when all jobs have ended, and those that have."""
        newest, oldest, found = 0.0, math.inf, []
        for job in self._listed(None):
            newest = max(newest, job.created)
            if not job.status.is_final:
                oldest = min(oldest, job.created)
            elif job.status in self._statuses and self._is_new(job):
                found.append((job.created, job.id))
        return min(newest, oldest), found

    def _only_ended(self) -> list[tuple[float, str]]:
        return [
            (job.created, job.id)
            for status in self._statuses
            for job in self._listed(status)
            if self._is_new(job)
        ]

    def _listed(self, status: Status | None) -> Iterator[Job]:
        before = None
        while True:
            page = self._listing(status, before)
            yield from page
            if len(page) < LISTED_AT_ONCE or all(job.created < self._mark for job in page):
                return
            before = page[-1].id

    def _move_mark(self, ended_up_to: float) -> None:
        self._mark = max(self._mark, ended_up_to - SLACK_SECONDS)

    def _is_new(self, job: Job) -> bool:
        return job.created >= self._mark and job.id not in self._given
