"""Flows on a real standalone cluster of Spark's, whose executors have neither Shunter nor the flow.

The driver is a process of its own, so that the session of the other tests is left alone.
"""

from __future__ import annotations

import json
import os
import re
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
DEATH_SECONDS = 15.0
"""How long a run may go on after the first task that memory has ended; 10 s if little else runs."""

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


STREAM_THEN_ENGINES = """
import sys
from pathlib import Path
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.loading import load
from shunter.flow.runners.engines.runner import run_on_engines
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark

master, bare_python = sys.argv[1:3]
streamed, hosted = map(Path, sys.argv[3:])
session = spark_session(master)
stream_on_spark(load(f"{streamed}/counting.py"), session, checkpoints=streamed / "checkpoints")
session.sparkContext.pythonExec = bare_python
file = f"{hosted}/counting.py"
kept = Checkpoints(hosted / "checkpoints")
run_on_engines(load(file), file, hosts=master, checkpoints=kept, every=0.3)
"""

SHORT_OF_MEMORY = """
import json, os, signal, sys, time
from shunter import Flow
from shunter.errors import FlowError
from shunter.flow import DataFrameSource
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.runners.spark.session.spark_session import spark_session

session = spark_session(sys.argv[1], options={
    "spark.cores.max": "1", "spark.executor.memory": "512m", "spark.task.maxFailures": "60",
    "spark.executor.pyspark.memory": "3g",
})
context = session.sparkContext
store = context._jsc.sc().statusStore()

def large_strings(spark):
    return spark.range(1).selectExpr("repeat('x', cast(id + 1500000000 as int)) as text")

def hog(number):
    return len(bytearray(8 << 30)) if number == 50 else number

def killed(number):
    if number == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

def attempt(source, function, **options):
    flow = Flow("short")
    flow.source(source).map(function).sink(WriteJsonLines("out.jsonl"), workers=1)
    try:
        flow.run(on=session, **options)
    except FlowError as error:
        stage = store.lastStageAttempt(last_stage())
        tries = store.taskList(stage.stageId(), stage.attemptId(), 100)
        first = tries.apply(0)
        died = (first.launchTime().getTime() + first.duration().get()) / 1000
        return {
            "said": str(error), "seconds": time.time() - died,
            "failed": stage.numFailedTasks(),
            "active": len(context.statusTracker().getActiveJobsIds()),
        }

def last_stage():
    jobs = store.jobsList(None)
    stages = max(map(jobs.apply, range(jobs.size())), key=lambda job: job.jobId()).stageIds()
    return max(map(stages.apply, range(stages.size())))

told = {"java": attempt(DataFrameSource(large_strings), str)}
executors = store.executorList(False)
told["java"]["executors"] = [
    str(each.removeReason())
    for each in map(executors.apply, range(executors.size())) if not each.isActive()
]
told["python"] = attempt(range(100), hog)
told["killed"] = attempt(range(100), killed, stream=True, checkpoints="checkpoints")
print(json.dumps(told))
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
    """A Python that drives the cluster, in a folder."""

    def __init__(self, folder: Path, *words: str, **environ: str):
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **environ},
            )

    def until(self, condition: Callable[[], Any], what: str) -> None:
        until(lambda: condition() or self._process.poll(), within=PATIENCE, what=what)
        assert self._process.poll() is None, self._log.read_text()

    def end(self, within: float = PATIENCE) -> None:
        assert self._process.wait(within) == 0, self._log.read_text()

    @property
    def last_line(self) -> str:
        return self._log.read_text().splitlines()[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def test_the_first_task_that_memory_ends_ends_the_run(
    cluster: LocalSparkCluster, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(SHORT_OF_MEMORY)
    with Driver(tmp_path, "program.py", cluster.url) as driver:
        driver.end(2 * PATIENCE)  # a session and three runs; what is promised is measured inside
        told = json.loads(driver.last_line)

    java, python, killed = told["java"], told["python"], told["killed"]
    assert "of Spark's" in java["said"]
    assert "spark.executor.memory" in java["said"]
    assert len(java["executors"]) <= 1, "a second executor has died"
    assert "MemoryError" in python["said"]
    assert "raise spark.executor.pyspark.memory" in python["said"]
    assert "a Python process of Spark's was killed or has crashed" in killed["said"]
    for each in told.values():
        assert each["failed"] < 20, "of 60 tries"
        assert each["seconds"] < DEATH_SECONDS
        assert each["active"] == 0
    assert not (tmp_path / "out.jsonl").exists()


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


def test_executors_have_the_code_from_the_driver_and_one_that_dies_changes_nothing(
    cluster: LocalSparkCluster, bare_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    busy = tmp_path / "busy"
    (tmp_path / "beside.py").write_text(f"BUSY = {str(busy)!r}\n{BESIDE}")
    words = ("-m", "shunter", "flow", "run", "flow.py", "--master", cluster.url, "--json")
    with Driver(tmp_path, *words, PYSPARK_PYTHON=str(bare_python)) as driver:
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
