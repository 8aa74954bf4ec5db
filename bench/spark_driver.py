"""How much memory the driver of a flow takes: read, map, filter, write, of ten million rows.

The flow of `bench/spark_files.py` runs alone, each time in a driver of its own
(`bench/driver_alone.py`): with the default heap of 1 GB, with a smaller one, and on a standalone
cluster of two workers, where Java has nothing to do but to drive.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.figures import Figures
from bench.spark_files import make_rows
from bench.stage import Stage, conclude, listen, say, sizes
from shunter.testing.spark_cluster import LocalSparkCluster

SMALL_HEAP = "512m"
SECONDS = 600.0


def _alone(folder: Path, master: str, heap: str, chosen: Figures) -> Figures:
    """Run the flow in a driver of its own; return what that found."""
    told = ("--master", master, "--heap", heap, "--rounds", str(chosen["rounds"]))
    where = ("--events", str(folder / "events"), "--out", str(folder))
    command = [sys.executable, "-m", "bench.driver_alone", *told, *where]
    [found] = [said["figures"] for said in listen(command, seconds=SECONDS) if "figures" in said]
    return {**found, "rows_per_second": chosen["rows"] / found["seconds"]}


def main() -> None:
    chosen = vars(sizes(__doc__ or "", rows=10_000_000, rounds=2))
    here = f"local[{os.cpu_count() or 2}]"
    found = {}
    with Stage() as stage:
        make_rows(stage.folder / "events", "narrow", chosen["rows"])
        for name, heap in (("default", ""), ("small", SMALL_HEAP)):
            say(f"{name} heap", len(found), 3)
            found[name] = _alone(stage.folder, here, heap, chosen)
        say("cluster", len(found), 3)
        cluster = LocalSparkCluster(stage.folder / "cluster").start()
        found["cluster"] = _alone(stage.folder, cluster.url, "", chosen)
        cluster.stop()
    conclude(rows=chosen["rows"], **found)


if __name__ == "__main__":
    main()
