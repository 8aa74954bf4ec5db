"""One flow alone in a driver of its own: the most memory that its Java takes, and its speed.

Nobody else has used its session: Java's heap keeps what others have left in it, up to its limit,
and that limit would be measured. With a local master this Java is the executor as well.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import psutil

from bench.spark_files import flow_of
from bench.stage import conclude, peak_bytes, sizes
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.session.spark_session import spark_session, stop_session


def main() -> None:
    chosen = sizes(__doc__ or "", master="local[2]", heap="", events="", out="", rounds=1)
    options = {"spark.driver.memory": chosen.heap} if chosen.heap else None
    session = spark_session(chosen.master, options=options)
    took = []
    for number in range(chosen.rounds + 1):
        began = time.perf_counter()
        run_on_spark(flow_of("narrow", Path(chosen.events), Path(chosen.out) / "flow"), session)
        if number:  # the first round warms Java up
            took.append(time.perf_counter() - began)
    java, python = _java(), psutil.Process()
    figures = {"java_mb": peak_bytes(java.pid) / 1e6, "python_mb": peak_bytes(python.pid) / 1e6}
    stop_session(session)
    conclude(**figures, seconds=median(took), runs=took)


def _java() -> psutil.Process:
    [java] = [each for each in psutil.Process().children() if "java" in each.name()]
    return java


if __name__ == "__main__":
    main()
