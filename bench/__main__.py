"""`make bench`: measure, print what was found beside the targets, and keep it in figures.json.

Always ends with 0: a benchmark is not a test. It says clearly what missed its target.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import figures as record
from bench import peers
from bench.stage import listen
from bench.tables import PARTS, rewrite_page, show

RUNS = 3
MEASURE_SECONDS = 900.0

_ON_MONGODB = ("--store", "mongodb", "--trips", "200")
_SIZES = {
    "limit": ("bench.limit", ("--jobs", "100000", "--trips", "2000")),
    "jobs": ("bench.jobs", ("--jobs", "50000", "--trips", "2000")),
    "queue": ("bench.backlog", ("--queued", "1000000", "--jobs", "40000", "--rounds", "3")),
    "dispatchers": ("bench.dispatchers", ("--sqlite", "30000", "--mongodb", "12000")),
    "http": ("bench.posting", ("--seconds", "3", "--rounds", "5")),
    "secured": ("bench.secured", ("--jobs", "30000", "--seconds", "3", "--rounds", "5")),
    "limits": ("bench.limited", ("--sqlite", "20000", "--mongodb", "8000", "--rounds", "5")),
    "naps": ("bench.naps", ("--jobs", "10000", "--rounds", "5")),
    "udp": ("bench.tasks", ("--tasks", "20000", "--trips", "1000", "--rounds", "3")),
    "workflows": ("bench.workflows", ("--sqlite", "100000", "--mongodb", "24000")),
    "steps": ("bench.steps", ("--jobs", "10000", "--rounds", "5")),
    "idle": ("bench.idling", ("--workers", "1000", "--seconds", "31")),
    "page": ("bench.page", ("--jobs", "1000000", "--rounds", "3")),
    "flows": ("bench.flows", ("--events", "1000000", "--many", "10000000", "--rounds", "3")),
    "spark": ("bench.spark", ("--events", "10000000", "--rounds", "5")),
    "files": ("bench.spark_files", ("--narrow", "10000000", "--wide", "1000000", "--rounds", "2")),
    "cluster": (
        "bench.spark_files",
        ("--narrow", "10000000", "--wide", "500000", "--cluster", "1"),
    ),
    "driver": ("bench.spark_driver", ("--rows", "10000000", "--rounds", "3")),
    "keyed": (
        "bench.spark_keyed",
        ("--events", "5000000", "--keys", "1000000", "--rounds", "3"),
    ),
    "streaming": ("bench.spark_streaming", ("--batches", "40", "--rounds", "3")),
    "states": ("bench.spark_states", ("--batches", "30", "--rounds", "3")),
    "procrastinate": ("bench.jobs", (*_ON_MONGODB, "--jobs", "20000")),
}
_QUICK = {
    "limit": ("bench.limit", ("--jobs", "20000", "--trips", "300")),
    "jobs": ("bench.jobs", ("--jobs", "10000", "--trips", "300")),
    "queue": ("bench.backlog", ("--queued", "50000", "--jobs", "10000", "--rounds", "1")),
    "dispatchers": (
        "bench.dispatchers",
        ("--sqlite", "5000", "--mongodb", "5000", "--rounds", "1"),
    ),
    "http": ("bench.posting", ("--seconds", "1", "--rounds", "1")),
    "secured": ("bench.secured", ("--jobs", "5000", "--seconds", "1", "--rounds", "1")),
    "limits": ("bench.limited", ("--sqlite", "5000", "--mongodb", "3000", "--rounds", "1")),
    "naps": ("bench.naps", ("--jobs", "10000", "--rounds", "1")),
    "udp": ("bench.tasks", ("--tasks", "4000", "--trips", "200", "--rounds", "1")),
    "workflows": (
        "bench.workflows",
        ("--sqlite", "12000", "--mongodb", "4800", "--rounds", "1", "--idle", "5"),
    ),
    "steps": ("bench.steps", ("--jobs", "2000", "--trips", "200", "--rounds", "1")),
    "idle": ("bench.idling", ("--workers", "100", "--seconds", "5")),
    "page": ("bench.page", ("--jobs", "20000", "--turns", "2", "--rounds", "1", "--times", "2")),
    "flows": ("bench.flows", ("--events", "200000", "--many", "1000000", "--rounds", "1")),
    "spark": ("bench.spark", ("--events", "500000", "--rounds", "1")),
    "files": ("bench.spark_files", ("--narrow", "500000", "--wide", "20000", "--rounds", "1")),
    "cluster": (
        "bench.spark_files",
        ("--narrow", "500000", "--wide", "20000", "--rounds", "1", "--cluster", "1"),
    ),
    "driver": ("bench.spark_driver", ("--rows", "500000", "--rounds", "1")),
    "keyed": (
        "bench.spark_keyed",
        ("--events", "500000", "--keys", "100000", "--rounds", "1"),
    ),
    "streaming": ("bench.spark_streaming", ("--batches", "15", "--rounds", "1")),
    "states": ("bench.spark_states", ("--batches", "15", "--rounds", "1", "--keys", "200000")),
    "procrastinate": ("bench.jobs", (*_ON_MONGODB, "--jobs", "5000")),
}
"""The program and its sizes for each part, and for what is measured right after a peer."""


def main() -> int:
    chosen = _arguments()
    console = Console()
    # Drawn rarely: the bar shares the machine with what is measured.
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=2, transient=True) as progress:
        found = _measure(chosen, progress)
    figures = {**record.load(), **found}
    show(figures, console)
    if chosen.quick:
        console.print("a quick run: bench/figures.json and docs/benchmarks.md are as they were")
    else:
        record.save(figures)
        rewrite_page(figures)
        console.print("written: bench/figures.json, docs/benchmarks.md")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = (*PARTS, *peers.PEERS)
    parser.add_argument("--quick", action="store_true", help="few jobs, one run, nothing written")
    parser.add_argument("--only", default="", help=f"some of {','.join(known)}")
    parser.add_argument(
        "--peers", action="store_true", help="measure the peers, in a venv of their own"
    )
    chosen = parser.parse_args()
    chosen.only = [name for name in chosen.only.split(",") if name]
    if unknown := set(chosen.only) - set(known):
        parser.error(f"--only: {', '.join(unknown)}; allowed are {', '.join(known)}")
    return chosen


def _measure(chosen: argparse.Namespace, progress: Progress) -> record.Figures:
    found: record.Figures = {}
    if chosen.peers:
        found["peers"] = {**record.load().get("peers", {})}
        for name in peers.PEERS:
            if not chosen.only or name in chosen.only:
                figures = _measure_peer(name, progress, is_quick=chosen.quick)
                if "skipped" not in figures or name not in found["peers"]:
                    found["peers"][name] = figures
    else:
        wanted = [name for name in PARTS if not chosen.only or name in chosen.only]
        if wanted:
            found |= _measure_parts(wanted, progress, is_quick=chosen.quick)
            found["machine"] = record.machine()
    return found


def _measure_parts(
    wanted: Sequence[str], progress: Progress, *, is_quick: bool
) -> dict[str, record.Figures]:
    """Measure limit and jobs in turns, since what else the machine does changes by the minute.

    The other parts do so themselves.
    """
    found: dict[str, record.Figures] = {}
    in_turns = [name for name in ("limit", "jobs") if name in wanted]
    runs: dict[str, list[record.Figures]] = {name: [] for name in in_turns}
    count = 1 if is_quick else RUNS
    for number in range(count):
        for name in in_turns:
            label = f"{name}, run {number + 1} of {count}"
            if (figures := _run(name, label, progress, is_quick=is_quick)) is not None:
                runs[name].append(figures)
    found |= {
        name: record.stamped(record.middle(all_runs)) for name, all_runs in runs.items() if all_runs
    }
    for name in wanted:
        if name not in in_turns:
            figures = _run(name, name, progress, is_quick=is_quick)
            found |= {} if figures is None else {name: record.stamped(figures)}
    return found


def _run(name: str, label: str, progress: Progress, *, is_quick: bool) -> record.Figures | None:
    module, sizes = (_QUICK if is_quick else _SIZES)[name]
    task = progress.add_task(label, total=None)
    figures: record.Figures | None = None
    try:
        for said in listen([sys.executable, "-m", module, *sizes], seconds=MEASURE_SECONDS):
            if "figures" in said:
                figures = said["figures"]
            else:
                text = f"{label}: {said['at']}"
                progress.update(task, description=text, completed=said["done"], total=said["total"])
    except RuntimeError as error:
        progress.console.print(f"{label}: not measured: {error}", style="bold red")
    progress.remove_task(task)
    return figures


def _measure_peer(name: str, progress: Progress, *, is_quick: bool) -> record.Figures:
    task = progress.add_task(name, total=None)
    try:
        figures = peers.measure(
            name, lambda text: progress.update(task, description=text), is_quick=is_quick
        )
        if name in _SIZES:
            label = f"{name}: Shunter beside it"
            beside = _run(name, label, progress, is_quick=is_quick)
            figures |= {} if beside is None else {"beside": beside}
        return {**figures, "measured": record.now()}
    except peers.Skipped as reason:
        progress.console.print(f"{name}: skipped: {reason}", style="yellow")
        return {"skipped": str(reason)}
    finally:
        progress.remove_task(task)


if __name__ == "__main__":
    sys.exit(main())
