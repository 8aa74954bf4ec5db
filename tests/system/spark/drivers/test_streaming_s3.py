"""A stream whose checkpoint is on S3 goes on on another host, of which nothing else is known."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from s3_server import s3_bucket, s3_server
from shunter.flow.location import Location
from shunter.flow.runners.spark.stream.ledger import Ledger
from system.spark.drivers import s3_flow
from system.spark.drivers.s3_flow import AT_ONCE, EVENTS, KEYS

__all__ = ["s3_bucket", "s3_server"]

DRIVER = "from system.spark.drivers.s3_flow import main; main()"


@pytest.mark.timeout(300)
def test_another_host_goes_on_from_a_checkpoint_on_s3(s3_bucket: str, tmp_path: Path) -> None:
    url = f"{s3_bucket}/streams/counts"
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        database.execute("CREATE TABLE counts (key INTEGER PRIMARY KEY, count INTEGER)")
    tests = str(Path(s3_flow.__file__).parents[3])

    def drive(host: str, *words: str) -> None:
        """Run a driver that has folders of its own, as on another host."""
        scratch = tmp_path / host
        scratch.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([tests, *sys.path]),
            "TMPDIR": str(scratch),
        }
        command = [sys.executable, "-c", DRIVER, url, str(tmp_path), *words]
        done = subprocess.run(
            command, env=environment, cwd=scratch, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr

    drive("one", "2", "2")
    commit = Ledger(Location.of(url), "reader").last()
    assert commit is not None
    assert 1 <= commit.batch < EVENTS // AT_ONCE - 1
    drive("another", "3")

    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        rows = database.execute("SELECT key, count FROM counts").fetchall()
    assert dict(rows) == {key: len(range(key, EVENTS, KEYS)) for key in range(KEYS)}
    assert not (Location.of(url) / "states").files()
