"""The runs that a pool has in hand, and what becomes of each.

Each job that is given gets a key, which is never used again: what a child says about a key that
is gone concerns nobody. A run leaves by its report, or because it is given back. Decides when
a run must be stopped and what its outcome is worth then. Pure: `now` is always an argument.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from shunter.model.job import ErrorKind, Failure
from shunter.model.report import Advance, Held, Report
from shunter.model.worker import Handler
from shunter.wire.messages import Assignment
from shunter.worker.asks import RunAsk, RunAsked
from shunter.worker.pool.escalation import Escalation, Push
from shunter.worker.pool.first_runs import has_nothing_kept, run_key

_UNKNOWN = Handler("")


class Runs:
    """`open` holds, in the order in which they came, the job of each run and when it came."""

    def __init__(self, handlers: Sequence[Handler], *, grace: float) -> None:
        self._handlers = {handler.type: handler for handler in handlers}
        self._grace = grace
        self._last_key = 0
        self.open: dict[int, tuple[Assignment, float]] = {}
        self.stopping: dict[int, Escalation] = {}
        self.reports: list[Report] = []
        self.advances: list[Advance] = []
        self.asks: list[RunAsked] = []
        self._failed: list[tuple[Assignment, Failure]] = []

    def add(self, job: Assignment, *, now: float, begun: Container[str] | None = None) -> int:
        """Take a job on and return the key of its run.

        `begun` are jobs that may have kept steps in their first run; None if nobody knows which.
        """
        self._last_key += 1
        key = run_key(self._last_key, is_first=has_nothing_kept(job, begun))
        self.open[key] = (job, now)
        return key

    def held(self) -> list[Held]:
        """Return the jobs of all open runs."""
        return [Held(job.job_id, job.attempt) for job, _ in self.open.values()]

    def forget(self, keys: Iterable[int]) -> list[Held]:
        """Drop runs without a report, and return their jobs."""
        dropped = []
        for key in keys:
            job, _ = self.open.pop(key)
            self.stopping.pop(key, None)
            dropped.append(Held(job.job_id, job.attempt))
        return dropped

    def take_output(self) -> tuple[list[Report], list[Advance]]:
        """Return what has been reported since the last time."""
        output = self.reports, self.advances
        self.reports, self.advances = [], []
        return output

    def ask(self, key: int, asked: RunAsk) -> bool:
        """A run wants something of its journal; False if it is no longer open."""
        if (entry := self.open.get(key)) is not None:
            self.asks.append(RunAsked(key, entry[0], asked))
        return entry is not None

    def take_asks(self) -> list[RunAsked]:
        """Return what runs have asked since the last time."""
        asks, self.asks = self.asks, []
        return asks

    def park(
        self, key: int, park: bytes, text: str, log: str, lasted: tuple[float, float] | None
    ) -> None:
        """Report a run that is to go on later; one that is being stopped has been stopped."""
        if key in self.stopping:
            self.end(key, failure=Failure(ErrorKind.EXCEPTION, text), log=log, lasted=lasted)
            return
        if (entry := self.open.pop(key, None)) is not None:
            job, given_at = entry
            begun, ran = lasted or (None, None)
            waited = None if begun is None else max(0.0, begun - given_at)
            failure = Failure(ErrorKind.PARKED, text)
            self.reports.append(
                Report(job.job_id, job.attempt, park, failure, log, None, waited, ran)
            )

    def take_failed(self) -> list[tuple[Assignment, Failure]]:
        """Return which runs have failed since the last time, but for those that were cancelled."""
        failed, self._failed = self._failed, []
        return failed

    def cancel(self, jobs: Iterable[Held]) -> set[int]:
        """Have these jobs stopped; return the keys of those that weren't already."""
        wanted = {(held.job_id, held.attempt) for held in jobs}
        keys = {
            key
            for key, (job, _) in self.open.items()
            if (job.job_id, job.attempt) in wanted and key not in self.stopping
        }
        for key in keys:
            self._stop(key, ErrorKind.CANCELLED, "cancelled on request")
        return keys

    def drop_unstarted(self, key: int, *, now: float) -> None:
        """A run that was cancelled has been stopped before it began."""
        self.stopping.pop(key, None)
        failure = Failure(ErrorKind.CANCELLED, "cancelled before it started")
        self.end(key, failure=failure, lasted=(now, 0.0))

    def expire(self, running: Iterable[tuple[int, float]], *, now: float) -> None:
        """Have those stopped that run, since the given times, longer than they may."""
        for key, started in running:
            timeout = self._timeout(self.open[key][0])
            if timeout is not None and now - started >= timeout and key not in self.stopping:
                self._stop(key, ErrorKind.TIMEOUT, f"ran past its time-out of {timeout:g} s")

    def blame(self, key: int, reason: str) -> None:
        """Have a run stopped that keeps others from going on; it fails for that reason."""
        if key not in self.stopping:
            self._stop(key, ErrorKind.EXCEPTION, reason)

    def forgive(self, key: int) -> None:
        """A run that was blamed goes on by itself: let it, if nothing was done about it yet."""
        escalation = self.stopping.get(key)
        if escalation and escalation.kind is ErrorKind.EXCEPTION and not escalation.has_begun:
            del self.stopping[key]

    def pushes(self, running: Iterable[int], *, now: float) -> list[tuple[int, Push]]:
        """Return what is to be done now to which of the runs that are under way."""
        if not self.stopping:
            return []
        return [(key, self.stopping[key].due(now=now)) for key in running if key in self.stopping]

    def advance(
        self,
        key: int,
        done: float,
        total: float | None,
        note: str = "",
        *,
        begun: float | None = None,
    ) -> None:
        """A run, which began then, has come this far."""
        if entry := self.open.get(key):
            job, given_at = entry
            waited = None if begun is None else begun - given_at
            self.advances.append(Advance(job.job_id, job.attempt, done, total, note, waited))

    def end(
        self,
        key: int,
        *,
        result: bytes | None = None,
        failure: Failure | None = None,
        log: str = "",
        lasted: tuple[float, float] | None = None,
    ) -> None:
        """Report how a run ended, unless it is no longer open.

        `lasted` is when it began, by the clock by which it was added, and for how long it ran.
        """
        escalation = self.stopping.pop(key, None)
        entry = self.open.pop(key, None)
        if entry is None:
            return
        job, given_at = entry
        begun, ran = lasted or (None, None)
        waited = None if begun is None else max(0.0, begun - given_at)
        if escalation is not None and (failure is not None or not escalation.accepts_result()):
            result, failure = None, escalation.failure(failure)
        retry = self._handlers.get(job.type, _UNKNOWN).retry if failure else None
        if failure is not None and failure.kind is not ErrorKind.CANCELLED:
            self._failed.append((job, failure))
        self.reports.append(
            Report(job.job_id, job.attempt, result, failure, log, retry, waited, ran)
        )

    def die(
        self,
        key: int,
        cause: str,
        log: str,
        *,
        lasted: tuple[float, float] | None = None,
        traceback: str = "",
    ) -> None:
        """Report a run whose process died; `traceback` is where it was, if that is known."""
        escalation = self.stopping.get(key)
        is_killed = escalation is not None and escalation.ended_by == Push.SIGKILL
        failure = Failure(ErrorKind.LOST, "" if is_killed else cause, traceback)
        self.end(key, failure=failure, log=log, lasted=lasted)

    def _stop(self, key: int, kind: ErrorKind, reason: str) -> None:
        self.stopping[key] = Escalation(kind, reason, grace=self._grace)

    def _timeout(self, job: Assignment) -> float | None:
        if job.timeout is not None:
            return job.timeout
        return self._handlers.get(job.type, _UNKNOWN).timeout
