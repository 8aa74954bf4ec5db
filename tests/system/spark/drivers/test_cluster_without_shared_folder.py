"""A cluster whose hosts share no folder, only an S3 server: sources and sinks are there.

Workers live in mount namespaces of their own, in which the driver's folder is empty.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from s3_server import ACCESS
from s3_server import s3_bucket as s3_bucket
from s3_server import s3_server as s3_server
from shunter.flow.location import Location
from shunter.flow.manifest import manifest_of
from shunter.testing.spark_cluster import LocalSparkCluster
from system.yard import until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None,
        reason="a view of the disk of its own needs root and unshare",
    ),
]

PATIENCE = 120.0
COUNT = 20_000

PROGRAM = """
import sys, time
from shunter import Flow
from shunter.flow import spark_session
from shunter.flow.sinks import WriteParquet
from shunter.flow.sources import JsonLines

master, source, target = sys.argv[1:]

class Running:
    def __init__(self, key):
        self.key, self.total = key, 0

    def on_event(self, row):
        time.sleep(0.0002)
        self.total += row["n"]
        return {"n": row["n"], "key": self.key, "total": self.total}

flow = Flow("far")
rows = flow.source(JsonLines(source))
rows.key_by("key").stateful(Running).sink(WriteParquet(target))
flow.run(on=spark_session(master, options={"spark.task.maxFailures": "8"}))
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("of-the-driver")


@pytest.fixture(scope="module")
def cluster(
    s3_server: str, hidden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalSparkCluster]:
    wrapper = [
        str(shutil.which("unshare")),
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none "$0" && exec "$@"',
        str(hidden),
    ]
    environ = {**ACCESS, "AWS_ENDPOINT_URL": s3_server}
    folder = tmp_path_factory.mktemp("cluster")
    with LocalSparkCluster(folder, environ=environ, wrapper=wrapper) as started:
        yield started


def started(hidden: Path, *words: str) -> subprocess.Popen[bytes]:
    (hidden / "program.py").write_text(PROGRAM)
    with (hidden / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "program.py", *words], cwd=hidden, stdout=log, stderr=log
        )


def test_a_worker_killed_in_the_middle_of_writing_to_a_store_changes_nothing(
    cluster: LocalSparkCluster, hidden: Path, s3_bucket: str
) -> None:
    lines = [f'{{"n": {n}, "key": {n % 7}}}\n' for n in range(COUNT)]
    for part in range(4):
        body = "".join(lines[part * COUNT // 4 : (part + 1) * COUNT // 4]).encode()
        (Location.of(s3_bucket) / "in" / f"{part}.jsonl").write(body)
    target = Location.of(s3_bucket) / "out"
    driver = started(hidden, cluster.url, f"{s3_bucket}/in", target.url)
    try:
        owner = target / "_shunter" / "owner"
        until(lambda: owner.is_file() or driver.poll() is not None, within=PATIENCE, what="a run")
        time.sleep(3.0)
        cluster.kill_worker(0)
        assert driver.wait(PATIENCE) == 0, (hidden / "driver.log").read_text()
    finally:
        driver.kill()
        driver.wait()

    manifest = manifest_of(target)
    assert manifest is not None
    rows = [
        row
        for name in manifest.files
        for row in pq.ParquetFile((target / name).open()).read().to_pylist()
    ]
    assert sorted(row["n"] for row in rows) == [*range(COUNT)]
    for key in range(7):
        totals = {row["n"]: row["total"] for row in rows if row["key"] == key}
        total = 0
        for n in range(key, COUNT, 7):
            total += n
            assert totals[n] == total


def test_a_folder_that_executors_do_not_see_is_refused(
    cluster: LocalSparkCluster, hidden: Path, s3_bucket: str
) -> None:
    (Location.of(s3_bucket) / "in" / "0.jsonl").write(b'{"n": 1, "key": 1}\n')
    driver = started(hidden, cluster.url, f"{s3_bucket}/in", str(hidden / "out"))

    assert driver.wait(PATIENCE) != 0
    said = (hidden / "driver.log").read_text()
    assert "does not see" in said
    assert "let the sink's path be a URL that all hosts reach" in said
    assert not (hidden / "out").exists()
