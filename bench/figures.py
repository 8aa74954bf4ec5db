"""What was measured, and whether it is enough. `figures.json` keeps it between runs.

The targets are those of docs/benchmarks.md. Nothing here measures or prints.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
import zmq

from bench.stage import REPOSITORY

PATH = Path(__file__).with_name("figures.json")

LEAST_JOBS_PER_SECOND = 10_000
LEAST_PART_OF_LIMIT = 0.3
MOST_TIMES_LIMIT = 3.0
MOST_MEGABYTES = 150
MOST_TIMES_SHORT = 1.2

Figures = dict[str, Any]


class Verdict(NamedTuple):
    """One target, what was found, and whether that is enough."""

    what: str
    found: str
    wanted: str
    is_met: bool


def load() -> Figures:
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def save(figures: Figures) -> None:
    PATH.write_text(json.dumps(_rounded(figures), indent=2, ensure_ascii=False) + "\n")


def middle(runs: Sequence[dict[str, float]]) -> Figures:
    """Return the median of each figure over all runs, and the runs."""
    figures: Figures = {name: median(run[name] for run in runs) for name in runs[0]}
    return {**figures, "runs": list(runs)}


def stamped(figures: Figures) -> Figures:
    """Note when this was measured, and on which state of the code."""
    return {**figures, "measured": now(), "commit": _commit()}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> Figures:
    """Describe where this runs."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": platform.platform(terse=True),
        "disk": _file_system("/var/tmp"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
        "msgspec": version("msgspec"),
        "shunter": version("shunter"),
    }


def verdicts(figures: Figures) -> list[Verdict]:
    """Compare what there is with the targets."""
    found = []
    limit, jobs, queue = (figures.get(name) for name in ("limit", "jobs", "queue"))
    if limit and jobs:
        least = max(LEAST_JOBS_PER_SECOND, LEAST_PART_OF_LIMIT * limit["jobs_per_second"])
        part = jobs["jobs_per_second"] / limit["jobs_per_second"]
        found.append(
            Verdict(
                "jobs per second",
                f"{jobs['jobs_per_second']:,.0f}, {part:.0%} of the limit",
                f"at least {least:,.0f} (10,000 or 30 % of the limit)",
                jobs["jobs_per_second"] >= least,
            )
        )
        times = jobs["p50_ms"] / limit["p50_ms"]
        found.append(
            Verdict(
                "p50 of a single round trip",
                f"{jobs['p50_ms']:.2f} ms, {times:.2f} x the limit's",
                f"at most {MOST_TIMES_LIMIT:g} x the limit's",
                times <= MOST_TIMES_LIMIT,
            )
        )
    if queue:
        found.append(
            Verdict(
                f"dispatcher's memory, {queue['queued']:,} jobs queued",
                f"{queue['peak_rss_mb']:.0f} MB at most, {queue['rss_mb']:.0f} MB when filled",
                f"under {MOST_MEGABYTES} MB",
                queue["peak_rss_mb"] < MOST_MEGABYTES,
            )
        )
        for what, key in (("processor time", "cpu_ms"), ("time", "ms")):
            long, short = queue[f"long_{key}"], queue[f"short_{key}"]
            found.append(
                Verdict(
                    f"{what} a job, {queue['queued']:,} against 1,000 queued",
                    f"{long / short:.2f} x ({long:.3f} against {short:.3f} ms)",
                    f"at most {MOST_TIMES_SHORT:g} x",
                    long / short <= MOST_TIMES_SHORT,
                )
            )
    return found


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 4) if value < 100 else round(value, 1)
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_rounded(inner) for inner in value]
    return value


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    described = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    return described.stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(path: str) -> str:
    """Name the file system on which the databases lie."""
    inside = [part for part in psutil.disk_partitions(all=True) if path.startswith(part.mountpoint)]
    return max(inside, key=lambda part: len(part.mountpoint)).fstype if inside else "unknown"
