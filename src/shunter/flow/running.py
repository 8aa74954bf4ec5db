"""Runs a flow to its end where it was asked to: in this process, or on engines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow import local
from shunter.flow.engine.checkpoints import KeepsCheckpoints
from shunter.flow.engine.deployer import FlowRun, Progress, Stopped
from shunter.flow.engine.local_engines import LocalEngines
from shunter.flow.engine.network import LOOPBACK
from shunter.flow.graph import Flow
from shunter.flow.report import Report, StageReport
from shunter.flow.terms import On

if TYPE_CHECKING:
    from shunter.flow.spark.placement import SparkEngines

LOOK_SECONDS = 0.5


def run_flow(flow: Flow, on: Any) -> list[StageReport]:
    """Run a flow to its end: on "local", on "spark", or on a SparkSession."""
    if on == On.LOCAL:
        return run_here(flow)
    from shunter.flow.spark.batch import run_on_spark

    if on == On.SPARK:
        return run_on_spark(flow)
    if hasattr(on, "range") and hasattr(on, "createDataFrame"):
        return run_on_spark(flow, on)
    raise FlowError(
        f"flow {flow.name!r} can't run on {on!r}; say 'local' or 'spark', or pass a SparkSession; "
        "for engines, type: shunter flow run FILE --on engines"
    )


def run_here(
    flow: Flow,
    *,
    checkpoints: KeepsCheckpoints | None = None,
    every: float = 5.0,
    progress: Progress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[StageReport]:
    """Run a flow in this process; raise Stopped where it should stop."""
    looked = time.monotonic()

    def look(report: Report) -> None:
        nonlocal looked
        if should_stop():
            raise Stopped
        if (now := time.monotonic()) - looked >= LOOK_SECONDS:
            looked = now
            progress(report.stages)

    return local.run(flow, checkpoints=checkpoints, every=every, look=look).stages


def run_on_engines(
    flow: Flow,
    spec: str,
    *,
    count: int = 2,
    addresses: Sequence[str] = (),
    hosts: str | None = None,
    network: str = LOOPBACK,
    checkpoints: KeepsCheckpoints | None = None,
    every: float = 5.0,
    progress: Progress = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[StageReport]:
    """Run a flow on the engines at `addresses`, or else on `count` of our own.

    `hosts` is the master of the Spark that has ours in its executors; without it they are here.
    `spec` is how engines load the flow. Raises Stopped where it should stop.
    """
    how: dict[str, Any] = {
        "network": network,
        "checkpoints": checkpoints,
        "every": every,
        "progress": progress,
        "should_stop": should_stop,
    }
    if addresses:
        return FlowRun(flow, spec, addresses, **how).run()
    with _started(flow, count, hosts, network) as started:
        try:
            return FlowRun(flow, spec, started.endpoints, keeper=started, **how).run()
        except BaseException:
            # Nothing in there is worth waiting for: whoever cancelled the run wants it gone.
            started.kill()
            raise


@contextmanager
def _started(
    flow: Flow, count: int, hosts: str | None, network: str
) -> Iterator[LocalEngines | SparkEngines]:
    """Start engines of our own, here or on Spark."""
    if hosts is not None:
        from shunter.flow.spark.placement import engines_on_spark

        with engines_on_spark(flow, hosts, count, network=network) as on_spark:
            yield on_spark
        return
    with (
        tempfile.TemporaryDirectory(prefix="shunter-engines-") as folder,
        LocalEngines(count, Path(folder)) as here,
    ):
        yield here
