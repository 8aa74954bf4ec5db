"""Runs a flow on engines: those at given addresses, or some that are started for this run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.checkpoint_stores import checkpoint_store
from shunter.flow.runners.engines.deployer import FlowRun, StageProgressed
from shunter.flow.runners.engines.local_engines import LocalEngines
from shunter.flow.runners.port import (
    ENGINES,
    EVERY_SECONDS,
    LOOPBACK,
    OnKept,
    OnProgress,
    RunOptions,
    RunReport,
    ShouldStop,
)
from shunter.flow.runtime.checkpoint import CheckpointStore
from shunter.flow.runtime.report import StageReport
from shunter.key_file import engine_pair
from shunter.model.key import CurvePair

if TYPE_CHECKING:
    from shunter.flow.runners.spark.hosted_engines import SparkEngines


class EnginesRunner:
    """Runs flows on ZeroMQ engines."""

    def run(
        self,
        flow: FlowGraph,
        options: RunOptions,
        on_progress: OnProgress,
        should_stop: ShouldStop,
    ) -> RunReport:
        spec = options.spec or flow.file or ""
        if not spec:
            raise FlowError(
                f"flow {flow.name!r}: engines load a flow from its file, and this one was made "
                "elsewhere; load it with Flow.load('FILE.py'), or pass spec='FILE.py'"
            )
        count = len(options.addresses) or options.nodes or ENGINES
        stages = run_on_engines(
            flow,
            spec,
            count=count,
            addresses=options.addresses,
            hosts=options.hosts,
            network=options.network,
            checkpoints=checkpoint_store(options.checkpoints, flow.name),
            every=options.every or EVERY_SECONDS,
            progress=on_progress,
            on_kept=options.on_kept,
            should_stop=should_stop,
            curve=engine_pair(options.key_file) if options.key_file else None,
        )
        return RunReport(stages, count)


def run_on_engines(
    flow: FlowGraph,
    spec: str,
    *,
    count: int = ENGINES,
    addresses: Sequence[str] = (),
    hosts: str | None = None,
    network: str = LOOPBACK,
    checkpoints: CheckpointStore | None = None,
    every: float = EVERY_SECONDS,
    progress: StageProgressed = lambda _: None,
    on_kept: OnKept = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    curve: CurvePair | None = None,
) -> list[StageReport]:
    """Run a flow on the engines at `addresses`, or else on `count` of our own.

    `hosts` is the master of the Spark whose executors host ours; without it they are here.
    `spec` is how engines load the flow, `curve` the key that those at `addresses` have. Raises
    Stopped if it should stop.
    """
    how: dict[str, Any] = {
        "network": network,
        "checkpoints": checkpoints,
        "every": every,
        "progress": progress,
        "on_kept": on_kept,
        "should_stop": should_stop,
    }
    if addresses:
        return FlowRun(flow, spec, addresses, curve=curve, **how).run()
    with _started(flow, count, hosts, network) as started:
        try:
            return FlowRun(flow, spec, started.endpoints, keeper=started, **how).run()
        except BaseException:
            # Nothing in there is worth waiting for: whoever cancelled the run wants it gone.
            started.kill()
            raise


@contextmanager
def _started(
    flow: FlowGraph, count: int, hosts: str | None, network: str
) -> Iterator[LocalEngines | SparkEngines]:
    """Start engines of our own, here or on Spark."""
    if hosts is not None:
        from shunter.flow.runners.spark.hosted_engines import engines_on_spark

        with engines_on_spark(flow, hosts, count, network=network) as on_spark:
            yield on_spark
        return
    with (
        tempfile.TemporaryDirectory(prefix="shunter-engines-") as folder,
        LocalEngines(count, Path(folder)) as here,
    ):
        yield here
