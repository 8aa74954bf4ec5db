"""A stream whose checkpoint is on S3 goes on on another host, of which nothing else is known.

With SHUNTER_LONG=1 that is another process; else it is one that has thrown away all it had on disk.
"""

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
from system.spark.drivers import s3_flow
from system.spark.drivers.s3_flow import EVENTS, KEYS

__all__ = ["s3_bucket", "s3_server"]

DRIVER = "from system.spark.drivers.s3_flow import main; main()"


@pytest.mark.timeout(300)
def test_another_host_goes_on_from_a_checkpoint_on_s3(s3_bucket: str, tmp_path: Path) -> None:
    url = f"{s3_bucket}/streams/counts"
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        database.execute("CREATE TABLE counts (key INTEGER PRIMARY KEY, count INTEGER)")
    tests = str(Path(s3_flow.__file__).parents[3])

    def drive(*runs: tuple[str, int, int]) -> list[int]:
        """Have a driver do runs, each with folders of its own; return their last batches."""
        for host, _, _ in runs:
            (tmp_path / host).mkdir()
        words = [f"{tmp_path / host},{nodes},{batches}" for host, nodes, batches in runs]
        command = [sys.executable, "-c", DRIVER, url, str(tmp_path), *words]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        return [int(line) for line in done.stdout.splitlines()]

    hosts = ("one", 2, 2), ("another", 3, 0)
    if os.environ.get("SHUNTER_LONG"):
        batches = [batch for host in hosts for batch in drive(host)]
    else:
        batches = drive(*hosts)

    assert 1 <= batches[0] < batches[1]
    with closing(sqlite3.connect(tmp_path / "counts.db")) as database:
        rows = database.execute("SELECT key, count FROM counts").fetchall()
    assert dict(rows) == {key: len(range(key, EVENTS, KEYS)) for key in range(KEYS)}
    assert not (Location.of(url) / "states").files()
