"""The examples write the same on Spark as in one process, as a batch and as a stream.

As streams those with windows and with an order by time; all of them with SHUNTER_LONG=1.
"""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shunter.flow.loader import load
from shunter.flow.runners.local import run
from shunter.flow.runners.spark.stream.run import stream_on_spark
from system.flow.test_examples import KEYS, by_key, flow_file, written
from unit.testing.test_example_nightly import report_of_a_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STREAMED = KEYS if os.environ.get("SHUNTER_LONG") else ("visits", "payments")


@pytest.mark.parametrize("example", KEYS)
def test_an_example_writes_the_same_on_spark(
    example: str, spark: SparkSession, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("here", "batch", "stream")]
    for folder in folders:
        folder.mkdir()
    here, batch, stream = folders

    with chdir(here):
        run(load(flow_file(example)))
    expected = by_key(example, written(example, here))
    assert expected

    with chdir(batch):
        load(flow_file(example)).run(on=spark)
    assert by_key(example, written(example, batch)) == expected

    if example in STREAMED:
        with chdir(stream):
            flow = load(flow_file(example))
            stream_on_spark(flow, spark, checkpoints=tmp_path / "kept", max_events=900)
        assert by_key(example, written(example, stream)) == expected


def test_a_flow_on_spark_is_a_node_of_a_workflow(spark: SparkSession, tmp_path: Path) -> None:
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()

    report = report_of_a_night(tmp_path / "nightly", on="spark", master=spark.sparkContext.master)

    assert report == "20 squares up to 361; flow completed"
    assert scheduler.numTotalJobs() > before, "it was not Spark that did it"
