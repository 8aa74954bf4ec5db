"""A flow run on Spark, as somebody at a terminal sees it: a spinner first, then a bar."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shunter.flow.graph import Flow
from shunter.flow.report import StageReport
from shunter.flow.spark.batch import run_on_spark
from shunter.flow.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.5


def run_and_show(
    flow: Flow, *, master: str | None, is_shown: bool
) -> tuple[list[StageReport], int]:
    """Run a flow; return what its stages have done, and on how many nodes."""
    console = Console(stderr=True)
    waiting: AbstractContextManager[object] = (
        console.status("starting Spark") if is_shown else nullcontext()
    )
    with waiting:
        session = spark_session(master)
    nodes = session.sparkContext.defaultParallelism
    with _Bar(session, console) if is_shown else nullcontext():
        return run_on_spark(flow, session, nodes=nodes), nodes


class _Bar:
    """How many tasks of the stages that run in Spark just now are done."""

    def __init__(self, session: SparkSession, console: Console) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._bar = Progress(
            TextColumn("Spark's tasks"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._line = self._bar.add_task("", total=None)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._bar.start()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._bar.stop()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            active = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            stages = [stage for stage in active if stage is not None]
            done = sum(stage.numCompletedTasks for stage in stages)
            total = sum(stage.numTasks for stage in stages)
            self._bar.update(self._line, completed=done, total=total or None)
