"""The flow over jobs that have ended: counted by type, by slice of time and by worker.

Its source may be `JobHistory`, or on Spark a DataFrame of the format "shunter"; the same states
work on either, and their summaries meet in one sink.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from shunter.codec import shown_sealed
from shunter.flow.flow import Flow
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.reporting.document import covered

LONGEST_MESSAGE = 160
DIFFERENT_MESSAGES = 1000
OTHER_MESSAGES = "(other messages)"


class SeenJob(Struct, frozen=True):
    """What the report needs of a job. `slice` is the slice of time in which it ended."""

    type: str
    status: str
    ended: float
    attempts: int
    waiting: float | None
    run: float | None
    worker: str | None
    error: str
    slice: int
    slice_seconds: int


def report_flow(source: Any, sink: Any, *, slice_seconds: int = 60) -> Flow:
    """Return the flow. The sink gets dicts, of which `assembled` makes a report."""
    flow = Flow("report", types=(SeenJob,))
    jobs = flow.source(source, name="jobs").map(SeenJobReader(slice_seconds), name="seen")
    by_type = jobs.key_by("type").stateful(TypeSummary, name="by_type")
    by_slice = jobs.key_by("slice").stateful(SliceSummary, name="by_time")
    ran = jobs.filter(has_run, name="ran")
    by_worker = ran.key_by("worker").stateful(WorkerSummary, name="by_worker")
    flow.merge(by_type, by_slice, by_worker).sink(sink, name="report", workers=1)
    return flow


class SeenJobReader:
    """Takes from a record of the history what is needed, for slices of this many seconds."""

    def __init__(self, slice_seconds: int) -> None:
        self._seconds = slice_seconds

    def __call__(self, job: dict[str, Any]) -> SeenJob:
        ended = job["ended"]
        if isinstance(ended, datetime.datetime):
            ended = ended.timestamp()
        return SeenJob(
            type=job["type"],
            status=job["status"],
            ended=round(ended, 6),
            attempts=job["attempt"],
            waiting=job["waiting_seconds"],
            run=job["run_seconds"],
            worker=job["worker_id"],
            error=brief(job["error"]) if job["status"] == "failed" else "",
            slice=int(ended // self._seconds) * self._seconds,
            slice_seconds=self._seconds,
        )


def has_run(job: SeenJob) -> bool:
    return job.worker is not None and job.run is not None


def brief(message: str | None) -> str:
    """Return the first line of an error's message, and of a long one its beginning."""
    lines = shown_sealed(message or "").strip().splitlines() or ["(no message)"]
    line = lines[0]
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"


class _Summary(ABC):
    """Says what it has seen when the end has come."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return it as plain values."""

    def on_instruction(self, instruction: Instruction) -> Iterator[dict[str, Any]]:
        if instruction.name == END_OF_STREAM:
            yield self.summary()


class TypeSummary(_Summary):
    """How the jobs of a type ended, how long they waited and ran, and what they died of."""

    def __init__(self, job_type: str) -> None:
        self.type = job_type
        self.counts = {"completed": 0, "failed": 0, "cancelled": 0}
        self.repeated = 0
        self.waiting: list[float] = []
        self.run: list[float] = []
        self.errors: dict[str, int] = {}

    def on_event(self, job: SeenJob) -> None:
        self.counts[job.status] += 1
        self.repeated += max(0, job.attempts - 1)
        if job.waiting is not None:
            self.waiting.append(job.waiting)
        if job.run is not None:
            self.run.append(job.run)
        if job.error:
            is_known = job.error in self.errors or len(self.errors) < DIFFERENT_MESSAGES
            message = job.error if is_known else OTHER_MESSAGES
            self.errors[message] = self.errors.get(message, 0) + 1

    def summary(self) -> dict[str, Any]:
        return {
            "about": "type",
            "type": self.type,
            "repeated": self.repeated,
            "waiting": self.waiting,
            "run": self.run,
            "errors": self.errors,
            **self.counts,
        }


class SliceSummary(_Summary):
    """How many jobs ended in a slice of time, and how, and when the first of them began."""

    def __init__(self, start: int) -> None:
        self.start, self.seconds = start, 0
        self.counts = {"completed": 0, "failed": 0, "cancelled": 0}
        self.first, self.last = math.inf, -math.inf

    def on_event(self, job: SeenJob) -> None:
        self.seconds = job.slice_seconds
        self.counts[job.status] += 1
        self.first = min(self.first, job.ended - (job.run or 0.0))
        self.last = max(self.last, job.ended)

    def summary(self) -> dict[str, Any]:
        return {
            "about": "slice",
            "start": self.start,
            "seconds": self.seconds,
            "first": self.first,
            "last": self.last,
            **self.counts,
        }


class WorkerSummary(_Summary):
    """When a worker ran jobs, as the seconds of runs in each slice."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.seconds = 1
        self.runs: list[list[float]] = []

    def on_event(self, job: SeenJob) -> None:
        assert job.run is not None, "jobs that did not run were left out"
        self.seconds = job.slice_seconds
        self.runs.append([job.ended - job.run, job.ended])

    def summary(self) -> dict[str, Any]:
        load: dict[int, float] = {}
        for start, end in self.runs:
            at = int(start // self.seconds) * self.seconds
            while at < end:
                seconds = min(end, at + self.seconds) - max(start, at)
                load[at] = load.get(at, 0.0) + seconds
                at += self.seconds
        return {
            "about": "worker",
            "worker": self.worker,
            "jobs": len(self.runs),
            "busy": covered(self.runs),
            "total": sum(end - start for start, end in self.runs),
            "load": [[start, seconds] for start, seconds in sorted(load.items())],
        }
