"""A Java that starts in half its time, for the many Spark processes of tests that live for seconds.

It is content with its first compiler, and reads Spark's classes from an archive in place of some
hundred jars (class data sharing). The archive is made once, by a run that uses what flows use:

    os.environ["JAVA_TOOL_OPTIONS"] = quick_java(folder)

Every Java process from then on has it. One that the archive does not fit goes without by itself.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from shunter.errors import ShunterError
from shunter.flow.graph import Flow
from shunter.flow.sinks import WriteJsonLines, WriteParquet
from shunter.flow.spark.session import pyspark, spark_session
from shunter.flow.spark.streaming import stream_on_spark

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that need not be fast in the long run."""

TRAINING_SECONDS = 240.0


class TrainingFailed(ShunterError):
    """The archive could not be made."""


def quick_java(folder: Path) -> str:
    """Return Java's options, after making the archive where `folder` has none for this Spark."""
    archive = folder / f"spark-{version('pyspark')}.jsa"
    with (folder / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _have_made(archive)
    return f"{BRIEF} -XX:SharedArchiveFile={archive} -Xlog:disable"


def _have_made(archive: Path) -> None:
    partly = archive.with_suffix(".part")
    partly.unlink(missing_ok=True)
    saving = f"{BRIEF} -XX:ArchiveClassesAtExit={partly} -Xlog:disable"
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_TOOL_OPTIONS"}
    told = subprocess.run(  # noqa: S603  all ours
        [sys.executable, "-m", __name__],
        env={**environ, "SPARK_SUBMIT_OPTS": saving},
        capture_output=True,
        text=True,
        timeout=TRAINING_SECONDS,
        check=False,
    )
    if told.returncode or not partly.exists():
        raise TrainingFailed(f"no archive of Spark's classes: {told.stderr or told.stdout}")
    partly.rename(archive)


class _Total:
    def __init__(self, key: int) -> None:
        self.total = 0

    def on_event(self, number: int) -> int:
        self.total += number
        return self.total


def _train() -> None:
    """Run a flow as a stream, which uses what a batch does too, and let Java go in its own time."""
    flow = Flow("training")
    numbers = flow.source(range(30))
    numbers.map(lambda number: {"n": number}).sink(WriteParquet("numbers"), workers=1)
    totals = numbers.key_by(lambda number: number % 3).stateful(_Total)
    totals.sink(WriteJsonLines("totals.jsonl"), workers=1)
    session = spark_session("local[2]")
    java = pyspark().SparkContext._gateway.proc
    stream_on_spark(flow, session, checkpoints=Path("checkpoint"))
    session.stop()
    java.stdin.close()
    java.wait()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, chdir(folder):
        _train()
