"""How long jobs waited and ran: histograms by type. Pure, and cheap enough for every job."""

from __future__ import annotations

from bisect import bisect_left

from shunter.model.activity import BOUNDS, OTHERS
from shunter.model.job import Job
from shunter.model.run_times import first_start

MOST_TYPES = 200
"""When there are more, they are counted as others: memory must stay bounded."""


class Histogram:
    """How many values lay below each bound; the last count is for those above all of them."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each bound as text, with how many values were at most that."""
        rows, below = [], 0
        for bound, count in zip((*BOUNDS, float("inf")), self.counts, strict=True):
            below += count
            rows.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(below)))
        return rows


class Timings:
    """`dispatch` is from when a job could first run until it did, `run` is its last run."""

    def __init__(self) -> None:
        self.dispatch: dict[str, Histogram] = {}
        self.run: dict[str, Histogram] = {}

    def ran(self, job: Job) -> None:
        """Note the end of a run: the beginning of the first tells how long the job has waited.

        Only at its end is it known when the handler began.
        """
        started = job.execution.started
        if job.history:
            run = started if job.status.is_final else job.history[-1].started
            started = first_start(job)
            if started != run:
                return
        if started is not None:
            could_run = max(job.created, job.not_before or 0.0)
            _of(self.dispatch, job.type).add(max(0.0, started - could_run))

    def ended(self, job: Job) -> None:
        """Note the end of a job that ran."""
        run = job.execution
        if run.started is not None and run.ended is not None:
            _of(self.run, job.type).add(max(0.0, run.ended - run.started))


def _of(histograms: dict[str, Histogram], job_type: str) -> Histogram:
    found = histograms.get(job_type)
    if found is None:
        name = job_type if len(histograms) < MOST_TYPES else OTHERS
        found = histograms.setdefault(name, Histogram())
    return found
