"""Flows on a real standalone cluster of Spark's, whose executors have neither Shunter nor the flow.

The driver is a process of its own, so that the session of the other tests is left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from shunter.testing.spark_cluster import LocalSparkCluster
from system.flow.engines import COUNTING, is_complete, numbers_file, sums_in
from system.yard import until

pytestmark = pytest.mark.timeout(300)

PATIENCE = 100.0

FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
import beside

class Last:
    def __init__(self, key):
        self.key, self.total = key, 0

    def on_event(self, number):
        self.total += number
        return [self.key, self.total, *beside.where_code_comes_from(), where()]

def where():
    return type(__spec__.loader).__name__

flow = Flow("shipped")
numbers = flow.source(range(200), workers=1).map(beside.doubled)
numbers.key_by(beside.key_of).stateful(Last).sink(WriteJsonLines("out.jsonl"), workers=1)
"""

BESIDE = """
import os, time
import shunter

def doubled(number):
    with open(BUSY, "w") as file:
        file.write(os.getcwd())
    time.sleep(0.02)
    return number * 2

def key_of(number):
    return number % 5

def where_code_comes_from():
    return shunter.__file__, type(__spec__.loader).__name__
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkCluster]:
    with LocalSparkCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has libraries, and nothing that is only linked to, as Shunter is here."""
    packages = sysconfig.get_paths()["purelib"]
    script = tmp_path_factory.mktemp("python") / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    script.chmod(0o755)
    return script


class Driver:
    """`shunter flow run` on the cluster, in a folder."""

    def __init__(self, cluster: LocalSparkCluster, folder: Path, *words: str, **environ: str):
        self._log = folder / "driver.log"
        on = ("--on", "spark", "--master", cluster.url) if "--on" not in words else ()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shunter", "flow", "run", *words, *on, "--json"],
                cwd=folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **environ},
            )

    def until(self, condition: Callable[[], Any], what: str) -> None:
        until(lambda: condition() or self._process.poll(), within=PATIENCE, what=what)
        assert self._process.poll() is None, self._log.read_text()

    def end(self) -> None:
        assert self._process.wait(PATIENCE) == 0, self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def test_engines_in_executors_outlive_the_death_of_one(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "checkpoints"
    numbers_file(tmp_path, 10_000)
    flow = tmp_path / "counting.py"
    flow.write_text(Path(COUNTING).read_text().replace('"FLOW_PAUSE", "0"', '"FLOW_PAUSE", "0.05"'))
    words = ("counting.py", "--on", "engines", "--hosts", cluster.url)
    words += ("--checkpoints", str(kept), "--every", "0.3")
    with Driver(cluster, tmp_path, *words, PYSPARK_PYTHON=str(bare_python)) as driver:
        driver.until(lambda: list(kept.glob("*")), "a checkpoint")
        offspring = psutil.Process(cluster.workers[1].pid).children()
        [executor] = [each for each in offspring if each.name() == "java"]

        executor.kill()
        driver.end()

    assert is_complete(sums_in(tmp_path), 10_000)


def test_a_stream_over_the_cluster(cluster: LocalSparkCluster, tmp_path: Path) -> None:
    numbers_file(tmp_path, 2_000)
    (tmp_path / "counting.py").write_text(Path(COUNTING).read_text())
    words = ("counting.py", "--stream", "--checkpoints", str(tmp_path / "checkpoints"))

    with Driver(cluster, tmp_path, *words) as driver:
        driver.end()

    assert is_complete(sums_in(tmp_path), 2_000)


def test_executors_have_the_code_from_the_driver_and_one_that_dies_changes_nothing(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    busy = tmp_path / "busy"
    (tmp_path / "beside.py").write_text(f"BUSY = {str(busy)!r}\n{BESIDE}")
    with Driver(cluster, tmp_path, "flow.py", PYSPARK_PYTHON=str(bare_python)) as driver:
        driver.until(lambda: busy.exists() and busy.read_text(), "a task")

        cluster.kill_worker(0 if "worker-0" in busy.read_text() else 1)
        driver.end()

    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 200
    assert {key: total for key, total, *_ in rows} == {
        key: sum(n for n in range(0, 400, 2) if n % 5 == key) for key in range(5)
    }
    [(package, *loaders)] = {tuple(row[2:]) for row in rows}
    assert "shunter-package.zip" in package
    assert loaders == ["_Shelf", "_Shelf"]
    assert cluster.alive_workers == 1
