"""A stream whose checkpoint is on S3 goes on on another host, of which nothing else is known.

With SHUNTER_LONG=1 that is another process; else it is one that has thrown away all it had on disk.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import chdir, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from long_runs import IS_LONG
from shunter.flow.location import Location
from system.spark.drivers import s3_flow
from system.spark.drivers.s3_flow import EVENTS, KEYS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "from system.spark.drivers.s3_flow import main; main()"


@pytest.mark.timeout(300)
def test_another_host_goes_on_from_a_checkpoint_on_s3(
    s3_bucket: str, spark: SparkSession, tmp_path: Path
) -> None:
    url = f"{s3_bucket}/streams/counts"
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        database.execute("CREATE TABLE counts (key INTEGER PRIMARY KEY, count INTEGER)")

    def drive(host: str, nodes: int, batches: int) -> int:
        """Have a stream go on, with a folder of its own, for so many batches; return the last."""
        folder = tmp_path / host
        folder.mkdir()
        if IS_LONG:
            return driven(url, tmp_path, f"{folder},{nodes},{batches}")
        with chdir(folder):
            return s3_flow.stream(url, tmp_path, nodes, batches, spark)

    first = drive("one", 2, 2)
    last = drive("another", 3, 0)

    assert 1 <= first < last
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        rows = database.execute("SELECT key, count FROM counts").fetchall()
    assert dict(rows) == {key: len(range(key, EVENTS, KEYS)) for key in range(KEYS)}
    assert not (Location.of(url) / "states").files()


def driven(url: str, folder: Path, run: str) -> int:
    """Have a driver of its own do a run."""
    tests = str(Path(s3_flow.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, url, str(folder), run],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        cwd=folder, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
