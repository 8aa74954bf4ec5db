"""Runs of workflows, as they are looked at: in short, and one with its jobs and edges. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shunter.errors import JobNotFound, JobRefused
from shunter.model.job import Job, Status
from shunter.model.json_record import JsonRecord
from shunter.model.submission import Submission
from shunter.model.workflow import JobEdge, is_parked


class RunSummary(JsonRecord, Struct, frozen=True, kw_only=True):
    """One run, by its first jobs: `is_cut` says that it has more than were counted.

    `workflow` and `created` are those of its first job; `ended` is when the last of those
    counted has ended, None while one has not.
    """

    id: str
    workflow: str | None
    created: float
    counts: dict[Status, int]
    ended: float | None = None
    is_cut: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the run as a dict that `json.dumps` takes: how many `jobs` stand where."""
        return {
            "run": self.id,
            "workflow": self.workflow,
            "created": self.created,
            "ended": self.ended,
            "jobs": {status.word: count for status, count in self.counts.items()},
            "is_cut": self.is_cut,
        }


class RunView(JsonRecord):
    """A run: its jobs in the order of their submission, and the edges to them."""

    def __init__(self, run_id: str, jobs: Iterable[Job], edges: Iterable[JobEdge]) -> None:
        self.id = run_id
        self.jobs = {job.id: job for job in jobs}
        self.edges = list(edges)

    @property
    def workflow(self) -> str | None:
        """The name of the workflow that it is a run of."""
        return next((job.workflow for job in self.jobs.values() if job.workflow), None)

    @property
    def counts(self) -> Counter[Status]:
        """How many jobs of it stand where."""
        return Counter(job.status for job in self.jobs.values())

    @property
    def open_jobs(self) -> list[str]:
        """The ids of those that have not ended."""
        return [job.id for job in self.jobs.values() if not job.status.is_final]

    @cached_property
    def parents(self) -> dict[str, list[str]]:
        """By job, whom it waits for, jobs of other runs included."""
        found: dict[str, list[str]] = {}
        for edge in self.edges:
            found.setdefault(edge.child, []).append(edge.parent)
        return found

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """By job, who waits for it."""
        found: dict[str, list[str]] = {}
        for edge in self.edges:
            found.setdefault(edge.parent, []).append(edge.child)
        return found

    def depths(self) -> dict[str, int]:
        """Return how many jobs stand before each one at most; parents of other runs don't count."""
        depths: dict[str, int] = {}
        waits = {
            name: sum(it in self.jobs for it in self.parents.get(name, ())) for name in self.jobs
        }
        free = [name for name, count in waits.items() if not count]
        for name in free:
            depths.setdefault(name, 0)
            for child in self.children.get(name, ()):
                if child in waits:
                    depths[child] = max(depths.get(child, 0), depths[name] + 1)
                    waits[child] -= 1
                    if not waits[child]:
                        free.append(child)
        return depths

    def as_dict(self) -> dict[str, Any]:
        """Return the run as a dict that `json.dumps` takes: its jobs in short, and its edges."""
        return {
            "run": self.id,
            "workflow": self.workflow,
            "jobs": [_in_short(job) for job in self.jobs.values()],
            "edges": [edge.as_dict() for edge in self.edges],
        }

    def _own_parents(self, name: str) -> list[str]:
        return [parent for parent in self.parents.get(name, ()) if parent in self.jobs]

    def tree(self) -> Iterator[tuple[str, Job, bool, list[Job]]]:
        """Yield the jobs as a tree: the branch before each, and whether it was shown before.

        A job with several parents is shown at the first of them, and only named at the others. If
        all that wait for a job were shown before, they come with it and have no lines of their own.
        """
        shown: set[str] = set()
        roots = [
            it for it in self.jobs if not any(p in self.jobs for p in self.parents.get(it, ()))
        ]
        todo = [("", "", it) for it in reversed(roots)]
        while todo:
            branch, trunk, name = todo.pop()
            was_shown = name in shown
            shown.add(name)
            below = [it for it in self.children.get(name, ()) if it in self.jobs]
            if was_shown or shown.issuperset(below):
                above = [] if was_shown else [self.jobs[it] for it in below]
                yield branch, self.jobs[name], was_shown, above
                continue
            yield branch, self.jobs[name], False, []
            for at, child in reversed(list(enumerate(below))):
                is_last = at == len(below) - 1
                mark, more = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
                todo.append((trunk + mark, trunk + more, child))

    def chosen(self, first: str | None = None) -> list[str]:
        """Return the jobs of the run, or one of them and all that wait for it, in their order."""
        if first is None:
            return list(self.jobs)
        if first not in self.jobs:
            raise JobNotFound(first)
        found, todo = {first}, [first]
        while todo:
            for child in self.children.get(todo.pop(), ()):
                if child in self.jobs and child not in found:
                    found.add(child)
                    todo.append(child)
        return [name for name in self.jobs if name in found]

    def rerun(
        self, first: str | None, resubmitted: Callable[[Job], Submission]
    ) -> list[Submission]:
        """Return what to submit so that the run, or all from one job on, is done again.

        `resubmitted` makes a submission of an ended job, under a new id. Jobs wait for the new
        ones of their parents, and for the old ones of those that are not done again. So do jobs
        that still wait: they stay, and wait for the new ones, too. A job that was rerun already is
        left out: the newer one is.
        """
        superseded = {job.rerun_of for job in self.jobs.values() if job.rerun_of}
        names = [name for name in self.chosen(first) if name not in superseded or name == first]
        parked = {name for name in names if name != first and is_parked(self.jobs[name])}
        for name in names:
            if not self.jobs[name].status.is_final and name not in parked:
                raise JobRefused(
                    name,
                    "rerun_of",
                    f"it is {self.jobs[name].status.word}; wait until it has ended, or cancel it",
                )
        submissions = {name: resubmitted(self.jobs[name]) for name in names if name not in parked}
        return [
            replace(
                submission,
                after=tuple(
                    submissions[it].id if it in submissions else it
                    for it in self.parents.get(name, ())
                )
                or None,
                when=self.jobs[name].when if self.parents.get(name) else None,
                awaited_by=tuple(it for it in self.children.get(name, ()) if it in parked) or None,
            )
            for name, submission in submissions.items()
        ]


def _in_short(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "type": job.type,
        "status": job.status.word,
        "when": job.when,
        "created": job.created,
        "started": job.execution.started,
        "ended": job.execution.ended,
        "error": None if job.error is None else job.error.message,
        "rerun_of": job.rerun_of,
    }
