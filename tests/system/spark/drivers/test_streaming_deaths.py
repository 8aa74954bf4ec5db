"""A stream whose driver is killed at any point of a batch goes on, and nobody sees a difference."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shunter.flow.runners.spark.stream.run import stream_on_spark
from system.spark.drivers import streamed_flow
from system.spark.drivers.streamed_flow import AT_ONCE, POINTS, flow_into, outputs, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "from system.spark.drivers.streamed_flow import main; main()"


@pytest.mark.timeout(600)
def test_the_output_is_that_of_a_run_without_faults_after_kills_at_every_point(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Five drivers die, each a batch later than the one before; the sixth comes to the end."""
    faultless, folder = tmp_path / "faultless", tmp_path / "killed"
    for each in (faultless, folder):
        prepare(each)
    flow_into(faultless).run()
    tests = str(Path(streamed_flow.__file__).parents[3])

    for batch, point in enumerate(POINTS, start=1):
        command = [sys.executable, "-c", DRIVER, str(folder), point, str(batch)]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == -signal.SIGKILL, (point, done.stderr)
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
