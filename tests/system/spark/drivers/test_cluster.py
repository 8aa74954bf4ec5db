"""Flows on a real standalone cluster of Spark's, whose executors have neither Shunter nor the flow.

There is one cluster for all of them, as its Java processes are what takes time. Its workers live in
mount namespaces of their own, in which one folder of the driver's is empty: who uses that one has
hosts that share no folder. Drivers are processes of their own, so that the session of the other
tests is left alone. Each test leaves at least one worker. Where one executor shows it all there is
only one, as each is a Java process too.

Every day one driver shows it all, and that is submitted. With SHUNTER_LONG=1 there is one that is,
and others that start their own Java; a stream's task is killed here too, as in `test_memory.py`,
and workers die under two flows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pyarrow.parquet as pq
import pytest

from long_runs import IS_LONG
from s3_server import ACCESS
from shunter.flow.location import Location
from shunter.flow.manifest import manifest_of
from shunter.testing.spark import submit_arguments
from shunter.testing.spark_cluster import LocalSparkCluster, spark_home
from system.flow.engines import COUNTING, is_complete, numbers_file, sums_in
from system.spark.drivers.cluster_programs import (
    BESIDE_FLOW,
    BESIDE_SUBMITTED,
    FAR,
    SHIPPED_FLOW,
    SHORT_OF_MEMORY,
    STREAM_THEN_ENGINES,
    SUBMITTED,
)
from system.yard import until

pytestmark = pytest.mark.timeout(600)

PATIENCE = 240.0
DEATH_SECONDS = 15.0
"""How long a run may go on after the first task that memory has ended; 10 s if little else runs."""
COUNT = 4_000

AS_ON_CLUSTERS = "pyspark-shell"
"""What PySpark itself has: queries are planned and compiled as Spark does it by itself.

So it is with spark-submit; with the other drivers it is so with SHUNTER_LONG=1.
"""

SUBMIT_ARGUMENTS = AS_ON_CLUSTERS if IS_LONG else submit_arguments()
CAN_HIDE = os.geteuid() == 0 and shutil.which("unshare") is not None


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that only drivers see."""
    return tmp_path_factory.mktemp("of-the-driver")


@pytest.fixture(scope="module")
def cluster(
    s3_server: str, hidden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalSparkCluster]:
    mount = 'mount -t tmpfs none "$0" && exec "$@"'
    wrapper = [str(shutil.which("unshare")), "--mount", "sh", "-c", mount, str(hidden)]
    with LocalSparkCluster(
        tmp_path_factory.mktemp("cluster"),
        environ={**ACCESS, "AWS_ENDPOINT_URL": s3_server},
        wrapper=wrapper if CAN_HIDE else (),
    ) as started:
        yield started


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has libraries, and nothing that is only linked to, as Shunter is here."""
    packages = sysconfig.get_paths()["purelib"]
    script = tmp_path_factory.mktemp("python") / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    script.chmod(0o755)
    return script


class Driver:
    """A program that drives the cluster, in a folder."""

    def __init__(self, folder: Path, *words: str, program: Any = sys.executable, **environ: str):
        self._out, self._log = folder / "driver.out", folder / "driver.log"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(program), *words],
                cwd=folder,
                stdout=out,
                stderr=log,
                env={**os.environ, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, **environ},
            )

    def until(self, condition: Callable[[], Any], what: str) -> None:
        until(lambda: condition() or self._process.poll() is not None, within=PATIENCE, what=what)
        assert self._process.poll() is None, self._log.read_text()

    def end(self, within: float = PATIENCE) -> str:
        """Wait for its end, and return what it has printed."""
        assert self._process.wait(within) == 0, self._log.read_text()[-3000:]
        return self._out.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def busy_worker(driver: Driver, busy: Path) -> int:
    """Wait until a task says in a file that it is in the middle, and tell on which worker."""
    driver.until(lambda: busy.exists() and busy.read_text(), "a task")
    return int(re.findall(r"worker-(\d+)", busy.read_text())[-1])


# ---- spark-submit


def submitted(
    cluster: LocalSparkCluster, python: Path, folder: Path, orders: Path, *words: str
) -> Driver:
    """Submit the program in a folder, which writes totals of orders, and may go on then."""
    (folder / "ordered.py").write_text(BESIDE_SUBMITTED)
    return Driver(
        folder,
        "--master", cluster.url, "--name", "mine", "--conf", "spark.ui.enabled=false",
        "--conf", "spark.default.parallelism=3", "--conf", "spark.sql.shuffle.partitions=7",
        "--conf", "spark.sql.adaptive.enabled=false", "program.py", *words,
        program=spark_home() / "bin" / "spark-submit",
        PYSPARK_PYTHON=str(python),
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        ORDERS=str(orders),
    )  # fmt: skip


@pytest.mark.skipif(CAN_HIDE and not IS_LONG, reason="make soak; every day by the last but one")
def test_a_program_that_is_submitted_has_its_master_its_settings_and_its_code_in_executors(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    orders = tmp_path / "orders.jsonl"
    (tmp_path / "program.py").write_text(SUBMITTED)
    with submitted(cluster, bare_python, tmp_path, orders) as driver:
        check_submitted(cluster, driver.end(), orders)


def check_submitted(cluster: LocalSparkCluster, printed: str, orders: Path) -> None:
    said = json.loads(printed.splitlines()[0])
    rows = [json.loads(line) for line in orders.read_text().splitlines()]
    assert len(rows) == 10
    assert dict(rows) == {"south": 2 * (0 + 2 + 4 + 6 + 8), "north": 2 * (1 + 3 + 5 + 7 + 9)}
    assert (said["master"], said["name"], said["nodes"]) == (cluster.url, "mine", 3)
    assert said["conf"]["spark.sql.shuffle.partitions"] == "7"
    assert said["conf"]["spark.sql.adaptive.enabled"] == "false"
    assert said["conf"]["spark.ui.enabled"] == "false"


# ---- drivers of our own


@pytest.mark.skipif(not IS_LONG, reason="make soak; every day it is shown by test_memory.py")
def test_the_first_task_that_memory_ends_ends_the_run(
    cluster: LocalSparkCluster, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(SHORT_OF_MEMORY)
    with Driver(tmp_path, "program.py", cluster.url) as driver:
        # a session and three runs; what is promised is measured inside
        told = json.loads(driver.end(2 * PATIENCE))

    java, python = told["java"], told["python"]
    assert "of Spark's" in java["said"]
    assert "spark.executor.memory" in java["said"]
    assert len(java["executors"]) <= 1, "a second executor has died"
    assert "MemoryError" in python["said"]
    assert "raise spark.executor.pyspark.memory" in python["said"]
    if IS_LONG:
        assert "a Python process of Spark's was killed or has crashed" in told["killed"]["said"]
    for each in told.values():
        assert each["failed"] < 20, "of 60 tries"
        assert each["seconds"] < DEATH_SECONDS
        assert each["active"] == 0
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.skipif(not IS_LONG, reason="make soak; every day it is shown by test_placement.py")
def test_a_stream_and_then_engines_in_executors_that_outlive_the_death_of_one(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    """Both on one session, for each more would be three Java processes more."""
    streamed, hosted = tmp_path / "streamed", tmp_path / "hosted"
    for folder, count in ((streamed, 2_000), (hosted, 10_000)):
        folder.mkdir()
        numbers_file(folder, count)
        (folder / "counting.py").write_text(counting_in(folder))
    (tmp_path / "program.py").write_text(STREAM_THEN_ENGINES)
    kept = hosted / "checkpoints"
    words = ("program.py", cluster.url, str(bare_python), str(streamed), str(hosted))
    with Driver(tmp_path, *words) as driver:
        driver.until(lambda: list(kept.glob("*.checkpoint")), "a checkpoint of engines")
        offspring = psutil.Process(cluster.workers[1].pid).children()
        [executor] = [each for each in offspring if each.name() == "java"]

        executor.kill()
        driver.end()

    assert is_complete(sums_in(streamed), 2_000)
    assert is_complete(sums_in(hosted), 10_000)


def counting_in(folder: Path) -> str:
    """Write the counting flow for data in a folder, wherever it is loaded."""
    text = Path(COUNTING).read_text().replace('"FLOW_PAUSE", "0"', '"FLOW_PAUSE", "0.05"')
    return re.sub(r"^FOLDER = .*$", f"FOLDER = Path({str(folder)!r})", text, flags=re.MULTILINE)


@pytest.mark.skipif(not CAN_HIDE, reason="a view of the disk of its own needs root and unshare")
def test_without_a_shared_folder_a_path_is_refused_and_a_store_outlives_the_death_of_a_worker(
    cluster: LocalSparkCluster, bare_python: Path, hidden: Path, s3_bucket: str, tmp_path: Path
) -> None:
    """Then the command runs a flow by the same driver, whose files executors do not see either.

    Unless the run is long, that driver was submitted, and what is promised to it is checked too.
    """
    lines = [f'{{"n": {n}, "key": {n % 7}}}\n' for n in range(COUNT)]
    for part in range(4):
        body = "".join(lines[part * COUNT // 4 : (part + 1) * COUNT // 4]).encode()
        (Location.of(s3_bucket) / "in" / f"{part}.jsonl").write(body)
    target, busy = Location.of(s3_bucket) / "out", tmp_path / "busy"
    (hidden / "program.py").write_text(FAR if IS_LONG else SUBMITTED + FAR)
    write_shipped_flow(hidden, tmp_path / "out.jsonl")
    words = (cluster.url, f"{s3_bucket}/in", target.url, str(hidden / "out"), str(busy))
    orders = tmp_path / "orders.jsonl"
    with (
        Driver(hidden, "program.py", *words, PYSPARK_PYTHON=str(bare_python))
        if IS_LONG
        else submitted(cluster, bare_python, hidden, orders, *words)
    ) as driver:
        cluster.kill_worker(busy_worker(driver, busy))
        said = driver.end()

    if not IS_LONG:
        check_submitted(cluster, said, orders)
    assert "does not see" in said
    assert "let the sink's path be a URL that all hosts reach" in said
    assert not (hidden / "out").exists()
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
    check_shipped_code(tmp_path / "out.jsonl")


@pytest.mark.skipif(CAN_HIDE and not IS_LONG, reason="make soak; every day by the test before")
def test_executors_have_the_code_from_the_driver_and_one_that_dies_changes_nothing(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    busy, out = tmp_path / "busy", tmp_path / "out.jsonl"
    write_shipped_flow(tmp_path, out, busy, pause=0.02)
    words = ("-m", "shunter", "flow", "run", "flow.py", "--master", cluster.url, "--json")
    if cluster.alive_workers < 2:
        cluster.add_worker()
        until(lambda: cluster.alive_workers == 2, within=PATIENCE, what="another worker")
    with Driver(tmp_path, *words, PYSPARK_PYTHON=str(bare_python)) as driver:
        cluster.kill_worker(busy_worker(driver, busy))
        driver.end()

    check_shipped_code(out)
    assert cluster.alive_workers == 1


def write_shipped_flow(
    folder: Path, out: Path, busy: Path | None = None, *, pause: float = 0
) -> None:
    """Write a flow and a module of its own; its tasks say in `busy` that they are at it."""
    (folder / "flow.py").write_text(SHIPPED_FLOW)
    head = f"OUT, BUSY, PAUSE = {str(out)!r}, {str(busy)!r}, {pause}"
    (folder / "beside.py").write_text(f"{head}\n{BESIDE_FLOW}")


def check_shipped_code(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 200
    assert {key: total for key, total, *_ in rows} == {
        key: sum(n for n in range(0, 400, 2) if n % 5 == key) for key in range(5)
    }
    [(package, *loaders)] = {tuple(row[2:]) for row in rows}
    assert "shunter-package.zip" in package
    assert loaders == ["_Shelf", "_Shelf"]
