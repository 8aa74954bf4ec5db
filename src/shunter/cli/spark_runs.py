"""A flow run on Spark, as somebody at a terminal sees it: a spinner first, then a bar."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shunter.cli.terminal import Terminal
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import Progress as RunProgress
from shunter.flow.runners.port import RunOptions, TasksDone
from shunter.flow.runners.registry import runner
from shunter.flow.runners.spark.preflight import check_run
from shunter.flow.runners.spark.runner import session_for
from shunter.flow.runners.spark.session.job_names import ui_url
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runtime.report import StageReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_and_show(
    flow: FlowGraph,
    *,
    master: str | None,
    is_shown: bool,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> tuple[list[StageReport], int]:
    """Run a flow; return what its stages have done, and on how many nodes."""
    console = Terminal(stderr=True)
    options = RunOptions(master=master, remote=remote, conf=conf)
    session, nodes = started(flow, options, console if is_shown else None)
    bar = _Bar(console, ui_url(session))
    with bar if is_shown else nullcontext():
        options = RunOptions(session=session, nodes=nodes)
        return runner("spark").run(flow, options, bar.show, lambda: False).stages, nodes


def started(
    flow: FlowGraph, options: RunOptions, console: Console | None
) -> tuple[SparkSession, int]:
    """Return a session for a run that can begin, and how many nodes it has; show a spinner."""
    check_run(flow, options)
    waiting: AbstractContextManager[object] = (
        console.status("connecting to Spark" if options.remote else "starting Spark")
        if console is not None
        else nullcontext()
    )
    with waiting:
        session = session_for(flow, options)
        return session, nodes_of(session)


class _Bar:
    """How many of the tasks that Spark knows of so far are done, and where its UI is."""

    def __init__(self, console: Console, url: str | None) -> None:
        self._bar = Progress(
            TextColumn("Spark's tasks"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn(url or "", markup=False),
            console=console,
            transient=True,
        )
        self._line = self._bar.add_task("", total=None)

    def show(self, tasks: RunProgress) -> None:
        assert isinstance(tasks, TasksDone), "told by streams and other runners"
        self._bar.update(self._line, completed=tasks.done, total=tasks.total or None)

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
