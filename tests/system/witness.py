"""What the witness saw: runs of jobs, and whether any two of one job overlapped."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from msgspec import Struct


class Run(Struct):
    """One run; `last` is the last sign of life."""

    job_id: str
    attempt: int
    pid: int
    first: float
    last: float
    has_ended: bool = False


def whole_lines(path: Path) -> list[str]:
    """Read lines that others are just adding to: the last one may be half written."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return text.split("\n")[:-1]


def runs_in(witness: Path) -> dict[str, list[Run]]:
    """Read what happened, as runs by job in the order of their starts."""
    runs: dict[tuple[str, int, int], Run] = {}
    for line in whole_lines(witness):
        what, job_id, attempt, pid, at = line.split()
        key = (job_id, int(attempt), int(pid))
        run = runs.setdefault(key, Run(job_id, int(attempt), int(pid), float(at), float(at)))
        run.last = max(run.last, float(at))
        run.has_ended = run.has_ended or what == "end"
    by_job: defaultdict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs.values(), key=lambda run: run.first):
        by_job[run.job_id].append(run)
    return dict(by_job)


def overlaps(witness: Path) -> list[tuple[Run, Run]]:
    """Return pairs of runs of one job that went on at the same time."""
    return [
        (before, after)
        for runs in runs_in(witness).values()
        for place, before in enumerate(runs)
        for after in runs[place + 1 :]
        if after.first <= before.last
    ]
