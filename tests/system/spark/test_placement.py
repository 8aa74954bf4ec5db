"""Engines in Spark's executors: placed, killed, refused, and gone when nobody needs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import zmq

import flow_cases
from parity import flow_of, output_of
from shunter.errors import FlowError
from shunter.flow.loader import load
from shunter.flow.runners.checkpoint_folder import Checkpoints
from shunter.flow.runners.engines import messages
from shunter.flow.runners.engines.deployer import EngineConnection, FlowRun
from shunter.flow.runners.engines.runner import run_on_engines
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.hosted_engines import Placed, SparkEngines, _check_network
from shunter.flow.runtime.report import StageReport
from system.flow.engines import COUNTING, InBackground, is_complete, numbers_file, sums_in
from system.yard import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

CASES = ["a_running_sum_by_key", "an_instruction_behind_balanced_workers", "everything_mixed"]


@pytest.fixture
def environ(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Set a variable here and on executors."""

    def set_both(name: str, value: str) -> None:
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)

    return set_both


def pid_of(endpoint: str) -> int:
    with zmq.Context() as context:
        engine = EngineConnection(context, endpoint, 0)
        try:
            return int(engine.ask(messages.EngineHello())["pid"])
        finally:
            engine.close()


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(
        each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes
    )


@pytest.mark.parametrize("case", CASES)
def test_a_flow_has_the_same_output_on_engines_that_spark_hosts(
    case: str, spark: SparkSession, tmp_path: Path, environ: Callable[[str, str], None]
) -> None:
    folders = [tmp_path / name for name in ("here", "on_spark")]
    for folder in folders:
        folder.mkdir()
    environ("FLOW_CASES", str(folders[0]))
    LocalRun(flow_of(case), nodes=2).run()

    environ("FLOW_CASES", str(folders[1]))
    run_on_engines(flow_of(case), f"{flow_cases.__file__}:{case}", hosts="local[2]")

    expected, found = (output_of(case, folder) for folder in folders)
    assert expected.events.total() == flow_cases.CASES[case]
    assert found.events == expected.events
    assert found.by_key == expected.by_key
    until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), what="no job is left")


def test_an_engine_that_is_killed_is_placed_anew_and_the_flow_goes_on_from_its_checkpoint(
    spark: SparkSession, tmp_path: Path, environ: Callable[[str, str], None]
) -> None:
    environ("FLOW_FOLDER", str(tmp_path))
    environ("FLOW_PAUSE", "0.02")
    numbers_file(tmp_path, 20_000)
    kept = Checkpoints(tmp_path / "checkpoints")
    flow = load(COUNTING)
    with SparkEngines(spark, flow, 2) as started:
        first = started.endpoints
        run = FlowRun(flow, COUNTING, first, keeper=started, checkpoints=kept, every=0.3)
        background = InBackground(run.run)
        until(lambda: kept.latest() is not None, what="a checkpoint")

        os.kill(pid_of(first[1]), signal.SIGKILL)
        stages = background.outcome(60)

        assert run.restarts >= 1
        assert not set(first) & set(started.endpoints)
    assert is_complete(sums_in(tmp_path), 20_000)
    assert stages[0].given < 20_000
    assert kept.latest() is None


def test_a_run_that_should_stop_leaves_no_engine_on_spark(
    spark: SparkSession, tmp_path: Path, environ: Callable[[str, str], None]
) -> None:
    environ("FLOW_FOLDER", str(tmp_path))
    environ("FLOW_PAUSE", "0.02")
    numbers_file(tmp_path, 100_000)
    seen: list[int] = []

    def progress(stages: list[StageReport]) -> None:
        seen.append(stages[-1].taken)

    with pytest.raises(Stopped):
        run_on_engines(
            load(COUNTING),
            COUNTING,
            hosts="local[2]",
            progress=progress,
            should_stop=lambda: bool(seen and seen[-1]),
        )

    tracker = spark.sparkContext.statusTracker()
    until(lambda: not tracker.getActiveJobsIds(), what="no job is left")
    until(lambda: all(not e.numRunningTasks() for e in executors_of(spark)))
    assert not list(tmp_path.glob("sums*.jsonl"))


def executors_of(spark: SparkSession) -> list[Any]:
    return list(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos())


def test_more_engines_than_slots_are_refused_within_seconds(spark: SparkSession) -> None:
    def seconds_until_refused() -> float:
        began = time.monotonic()
        with pytest.raises(
            FlowError, match=r"3 engines are wanted, and Spark at local\[2\] has slots "
        ):
            run_on_engines(load(COUNTING), COUNTING, count=3, hosts="local[2]")
        return time.monotonic() - began

    assert any(seconds_until_refused() < 10 for _ in range(3))  # on a busy machine not each time


def test_what_a_flow_raises_on_an_engine_names_the_stage(
    spark: SparkSession, tmp_path: Path, environ: Callable[[str, str], None]
) -> None:
    environ("FLOW_CASES", str(tmp_path))
    with pytest.raises(FlowError, match="stage 'inverse': ZeroDivisionError"):
        run_on_engines(flow_of("stopped"), f"{flow_cases.__file__}:stopped", hosts="local[2]")


def test_engines_of_other_hosts_that_listen_on_loopback_are_refused() -> None:
    placed = Placed("", ["tcp://127.0.0.1:4001", "tcp://127.0.0.1:4001"], ["10.1.0.5", "10.1.0.6"])

    with pytest.raises(FlowError, match=r"on 10.1.0.5, 10.1.0.6 and listen on loopback.*--network"):
        _check_network(placed)


def test_engines_are_gone_when_their_driver_is_killed(tmp_path: Path) -> None:
    numbers_file(tmp_path, 100_000)
    words = ("flow", "run", COUNTING, "--on", "engines", "--hosts", "local[2]")
    environ = {**os.environ, "FLOW_FOLDER": str(tmp_path), "FLOW_PAUSE": "0.02"}
    driver = subprocess.Popen([sys.executable, "-m", "shunter", *words], env=environ)
    try:
        until(lambda: list(tmp_path.glob("*sums*")), within=90, what="output")
        offspring = psutil.Process(driver.pid).children(recursive=True)
        assert len(offspring) >= 4  # Java, the daemon of Python's processes, and two of these
    finally:
        driver.kill()
        driver.wait()

    until(lambda: are_gone(offspring))
