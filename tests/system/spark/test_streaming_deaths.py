"""A stream whose driver dies at any point of a batch goes on, and nobody sees a difference.

The driver does nothing more and leaves all as it is; with SHUNTER_LONG=1 it is really killed, and
each is a Spark of its own then. Every day `drivers/test_spark_jobs.py` kills one anywhere.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from long_runs import IS_LONG
from shunter.errors import FlowError
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.runners.spark.stream.sinks import StreamSinkFeed
from shunter.flow.runners.spark.stream.task_files import StreamFilesFeed
from system.spark import streamed_flow
from system.spark.streamed_flow import AT_ONCE, POINTS, die_at, flow_into, outputs, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "from system.spark.streamed_flow import main; main()"


class Death(Exception):
    """Ends a driver in the middle."""


def die() -> None:
    raise Death


def kill_a_driver(folder: Path, point: str, batch: int) -> None:
    tests = str(Path(streamed_flow.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder), point, str(batch)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == -signal.SIGKILL, (point, done.stderr)


@pytest.fixture
def left() -> Iterator[list[Any]]:
    """The sinks of drivers that have ended: they are closed after the test, and nothing warns."""
    sinks: list[Any] = []
    yield sinks
    for sink in sinks:
        sink.abandon()


def end_a_driver(
    folder: Path, point: str, batch: int, spark: SparkSession, left: list[Any]
) -> None:
    """Leave a stream at a point, and clean nothing up: only locks go, as with a process."""
    locked: list[int] = []
    lock = fcntl.flock

    def noted(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        locked.append(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", noted)
        for sink in (StreamSinkFeed, StreamFilesFeed):
            patch.setattr(sink, "abandon", lambda each: left.append(each))
        die_at(point, batch, die, patch)
        with pytest.raises(FlowError, match=Death.__name__):
            stream_on_spark(
                flow_into(folder), spark, checkpoints=folder / "checkpoint", max_events=AT_ONCE
            )
    for descriptor in locked:
        with suppress(OSError):  # it may be closed by now
            lock(descriptor, fcntl.LOCK_UN)


@pytest.mark.timeout(600)
def test_the_output_is_that_of_a_run_without_faults_after_deaths_at_every_point(
    spark: SparkSession, tmp_path: Path, left: list[Any]
) -> None:
    """Five drivers die, each a batch later than the one before; the sixth comes to the end."""
    faultless, folder = tmp_path / "faultless", tmp_path / "killed"
    for each in (faultless, folder):
        prepare(each)
    flow_into(faultless).run(on="local")

    for batch, point in enumerate(POINTS, start=1):
        if IS_LONG:
            kill_a_driver(folder, point, batch)
        else:
            end_a_driver(folder, point, batch, spark, left)
        committed = sorted((folder / "checkpoint" / "commits").glob("*.json"))
        is_counted = point in ("committed", "published")
        assert int(committed[-1].stem.rpartition("-")[2]) == (batch if is_counted else batch - 1), (
            point
        )

    stages = stream_on_spark(
        flow_into(folder), spark, checkpoints=folder / "checkpoint", max_events=AT_ONCE
    )

    assert outputs(folder) == outputs(faultless)
    assert sorted(each.name for each in folder.iterdir()) == [
        "checkpoint", "even", "odd", "totals.db", "totals.jsonl",
    ]  # fmt: skip
    events = [item for item in streamed_flow.items() if isinstance(item, dict)]
    assert stages[0].given == len(events)
    again = stream_on_spark(flow_into(folder), spark, checkpoints=folder / "checkpoint")
    assert again == stages
    assert outputs(folder) == outputs(faultless)
