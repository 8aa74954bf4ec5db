"""How much memory the driver of a flow takes: read, map, filter, write, of ten million rows.

The flow of `bench/spark_files.py` runs alone, each time in a driver of its own
(`bench/driver_alone.py`): with the default heap of 1 GB and with half of it, in turns, and on a
standalone cluster of two workers, where Java has nothing to do but to drive.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median

from bench.figures import Figures
from bench.spark_files import make_rows
from bench.stage import Stage, conclude, listen, say, sizes
from shunter.testing.spark_cluster import LocalSparkCluster

SMALL_HEAP = "512m"
SECONDS = 600.0


def _alone(folder: Path, master: str, heap: str) -> Figures:
    """Run the flow in a driver of its own; return what that found."""
    where = ("--events", str(folder / "events"), "--out", str(folder))
    told = ("--master", master, "--heap", heap, *where)
    command = [sys.executable, "-m", "bench.driver_alone", *told]
    [found] = [said["figures"] for said in listen(command, seconds=SECONDS) if "figures" in said]
    return found


def _together(rows: int, found: list[Figures]) -> Figures:
    """Return the most memory of several drivers, and the median of their speeds."""
    most = {name: max(each[name] for each in found) for name in ("java_mb", "python_mb")}
    seconds = [each["seconds"] for each in found]
    return {**most, "rows_per_second": rows / median(seconds), "seconds": seconds}


def main() -> None:
    chosen = sizes(__doc__ or "", rows=10_000_000, rounds=3)
    here = f"local[{os.cpu_count() or 2}]"
    ways = {"default": (here, ""), "small": (here, SMALL_HEAP)}
    found: dict[str, list[Figures]] = {}
    with Stage() as stage:
        make_rows(stage.folder / "events", "narrow", chosen.rows)
        for number in range(chosen.rounds):
            for name in list(ways)[:: -1 if number % 2 else 1]:
                say(f"{name} heap", 2 * number, 2 * chosen.rounds + 1)
                found.setdefault(name, []).append(_alone(stage.folder, *ways[name]))
        say("cluster", 2 * chosen.rounds, 2 * chosen.rounds + 1)
        cluster = LocalSparkCluster(stage.folder / "cluster").start()
        found["cluster"] = [_alone(stage.folder, cluster.url, "")]
        cluster.stop()
    together = {name: _together(chosen.rows, each) for name, each in found.items()}
    conclude(rows=chosen.rows, **together)


if __name__ == "__main__":
    main()
