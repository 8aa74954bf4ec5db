"""A flow run on Spark, as somebody at a terminal sees it: a spinner first, then a bar."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import Progress as RunProgress
from shunter.flow.runners.port import RunOptions, TasksDone
from shunter.flow.runners.registry import runner
from shunter.flow.runners.spark.session.slots import nodes_of
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runtime.report import StageReport


def run_and_show(
    flow: FlowGraph, *, master: str | None, is_shown: bool, remote: str | None = None
) -> tuple[list[StageReport], int]:
    """Run a flow; return what its stages have done, and on how many nodes."""
    console = Console(stderr=True)
    waiting: AbstractContextManager[object] = (
        console.status("connecting to Spark" if remote else "starting Spark")
        if is_shown
        else nullcontext()
    )
    with waiting:
        session = spark_session(master, remote=remote)
        nodes = nodes_of(session)
    bar = _Bar(console)
    with bar if is_shown else nullcontext():
        options = RunOptions(session=session, nodes=nodes)
        return runner("spark").run(flow, options, bar.show, lambda: False).stages, nodes


class _Bar:
    """How many of the tasks that Spark knows of so far are done."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("Spark's tasks"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
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
