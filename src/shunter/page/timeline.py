"""The story of one job: its attempts on a line of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from shunter.model.job import Job, Status
from shunter.page.figures import moment_text, span_text

WIDTH = 1000
ROW = 26


class AttemptRow(Struct, frozen=True):
    """One run: when it was sent, when its handler began, when it ended, and how."""

    number: int
    worker_id: str | None
    sent: float | None
    started: float | None
    ended: float | None
    outcome: str
    message: str = ""

    @property
    def ran(self) -> str:
        if self.started is None or self.ended is None:
            return "–"
        return span_text(max(0.0, self.ended - self.started))


class Bar(Struct, frozen=True):
    """A piece of the line: its class of the style sheet, its place, and what it says."""

    kind: str
    x: float
    width: float
    row: int
    title: str


def attempts(job: Job) -> list[AttemptRow]:
    """Return all runs that the record tells of, the first one first."""
    rows = [
        AttemptRow(
            past.attempt, past.worker_id, None, past.started, past.ended, past.outcome, past.message
        )
        for past in job.history
    ]
    run = job.execution
    is_told = any(row.number == job.attempt for row in rows)
    if job.attempt and not is_told and (run.worker_id or run.sent):
        ended = run.ended if job.status.is_final else None
        message = job.error.message if job.error and job.status.is_final else ""
        outcome = job.status.word if job.status.is_final or run.worker_id else "waiting"
        rows.append(
            AttemptRow(
                job.attempt, run.worker_id, run.given_at, run.started, ended, outcome, message
            )
        )
    return rows


def bars(job: Job, rows: Sequence[AttemptRow], *, now: float) -> list[Bar]:
    """Lay the job's life out on WIDTH units: what it waited, and each run."""
    begin = job.created
    end = job.execution.ended if job.status.is_final else now
    end = max(begin + 0.001, end or job.updated, *(row.ended or begin for row in rows), begin)

    def bar(kind: str, since: float, until: float, row: int, title: str) -> Bar:
        left = (min(max(since, begin), end) - begin) / (end - begin) * WIDTH
        right = (min(max(until, begin), end) - begin) / (end - begin) * WIDTH
        said = f"{title}: {span_text(until - since)}, from {moment_text(since)}"
        return Bar(kind, round(left, 1), round(max(2.0, right - left), 1), row, said)

    found, free_since = [], begin
    for place, row in enumerate(rows):
        sent = row.sent or row.started or row.ended or end
        if sent > free_since:
            found.append(bar("waited", free_since, sent, place, "in the queue"))
        started = row.started
        if row.sent is not None and started is not None and started > row.sent:
            found.append(bar("sent", row.sent, started, place, "on its way to the handler"))
        until = row.ended if row.ended is not None else end
        kind = _kind(row, job) if row.ended is not None or job.status.is_final else "running"
        found.append(bar(kind, started or sent, until, place, f"run {row.number}, {row.outcome}"))
        free_since = until
    if not job.status.is_final and job.status is not Status.IN_PROGRESS:
        found.append(bar("waited", free_since, end, len(rows), "in the queue"))
    return found


def _kind(row: AttemptRow, job: Job) -> str:
    if row.number == job.attempt and job.status is Status.COMPLETED:
        return "completed"
    return "cancelled" if row.outcome == "cancelled" else "failed"
