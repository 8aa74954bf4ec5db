"""A Java that starts in half its time, for the many Spark processes of tests that live for seconds.

It is content with its first compiler, and reads Spark's classes from an archive in place of some
hundred jars (class data sharing). The archive is made once, by a run that uses what flows use,
with `python -m shunter.testing.quick_java FOLDER`. Then

    os.environ["JAVA_TOOL_OPTIONS"] = quick_java(folder)

gives it to every Java process. Where there is none, or it does not fit, Java goes without.
"""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from shunter.errors import ShunterError
from shunter.flow.flow import Flow
from shunter.flow.runners.spark.session.kinds import pyspark
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import WriteJsonLines, WriteParquet

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"
"""Options of a Java that need not be fast in the long run: with one compiler alone it would keep
little of what that has compiled, and be busy with throwing away the rest."""

UNMOVED = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)
"""Java moves an archive to a random address, for safety, and mends each of its pointers then: a
tenth of a second, also where it finds out afterwards that the archive is not for its classes."""


def quick_java(folder: Path) -> str:
    """Return options for Java, with the archive in `folder`."""
    return f"{BRIEF} -XX:SharedArchiveFile={_archive_in(folder)} {UNMOVED} -Xlog:disable"


def make_archive(folder: Path) -> None:
    """Make the archive of this Spark's classes, unless it is there."""
    archive = _archive_in(folder.resolve())
    if archive.exists():
        return
    staged = archive.with_suffix(".part")
    staged.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{BRIEF} -XX:ArchiveClassesAtExit={staged} -Xlog:disable"
    with TemporaryDirectory() as somewhere, chdir(somewhere):
        _train()
    staged.rename(archive)


def _archive_in(folder: Path) -> Path:
    return folder / f"spark-{version('pyspark')}.jsa"


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
    try:
        make_archive(Path(sys.argv[1]))
    except ShunterError as error:
        sys.exit(f"there is no archive of Spark's classes: {error}")
