"""What was measured, where, and on which state of the code. `figures.json` keeps it between runs.

Whether it is enough is `targets.py`'s business. Nothing here measures or prints.
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
from typing import Any

import psutil
import zmq

from bench.stage import REPOSITORY

PATH = Path(__file__).with_name("figures.json")

Figures = dict[str, Any]


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
        "pymongo": version("pymongo"),
        "uvicorn": version("uvicorn"),
        "shunter": version("shunter"),
    }


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
