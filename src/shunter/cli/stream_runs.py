"""A flow that streams on Spark, as somebody at a terminal sees it: a table that batches change."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from shunter.cli.spark_runs import started
from shunter.cli.stages import stage_table
from shunter.cli.terminal import Terminal
from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import Progress, RunOptions, TasksDone
from shunter.flow.runners.registry import runner
from shunter.flow.runners.spark.session.job_names import ui_url
from shunter.flow.runtime.progress import Pace, StageProgress
from shunter.flow.runtime.report import StageReport
from shunter.flow.stall import Stall

INTERRUPTED = 130


def stream_and_show(
    flow: FlowGraph,
    *,
    master: str | None,
    checkpoints: str | None,
    every: float | None,
    max_events: int | None,
    is_shown: bool,
    conf: Mapping[str, str] | None = None,
) -> tuple[list[StageReport], int]:
    """Stream until the sources end; return what the stages have done, and on how many nodes."""
    if checkpoints is None or checkpoints.startswith(("sqlite://", "mongodb://")):
        raise FlowError(
            "--stream needs a folder from which a later run can go on; say --checkpoints FOLDER, "
            "and on a cluster one that all its hosts see, or a URL such as s3://BUCKET/FOLDER"
        )
    console = Terminal(stderr=True)
    options = RunOptions(
        master=master,
        conf=conf,
        stream=True,
        checkpoints=checkpoints,
        every=every,
        max_events=max_events,
    )
    session, nodes = started(flow, options, console if is_shown else None)
    table = _LiveTable(flow, nodes, ui_url(session))
    live = Live(get_renderable=table.render, console=console, transient=True)
    try:
        with live if is_shown else nullcontext():
            options = replace(options, session=session, conf=None)
            report = runner("spark").run(flow, options, table.show, lambda: False)
    except KeyboardInterrupt:
        again = shlex.join(["shunter", *sys.argv[1:]])
        console.print(f"stopped; every batch that was committed counts. To go on: {again}")
        raise typer.Exit(INTERRUPTED) from None
    return report.stages, nodes


class _LiveTable:
    """Where the stages stand after the last batch, and for how long no batch has come."""

    def __init__(self, flow: FlowGraph, nodes: int, url: str | None) -> None:
        self._url = url
        self._name, self._began = flow.name, time.monotonic()
        self._pace = Pace(flow, nodes, now=self._began)
        self._stall = Stall()
        self._stages: Sequence[StageProgress] = ()
        self._marks: tuple[tuple[int, int], ...] = ()
        self._batches = 0

    def show(self, reports: Progress) -> None:
        assert not isinstance(reports, TasksDone), "told by batch runs alone"
        self._batches += 1
        self._stages = self._pace.of(reports, now=time.monotonic())
        self._marks = tuple((stage.taken, stage.given) for stage in reports)

    def render(self) -> RenderableType:
        now = time.monotonic()
        still = self._stall.seen(now, self._marks)
        said = f"{self._batches:,} batches; Ctrl-C stops it"
        if self._url is not None:
            said += f"; Spark's UI is at {self._url}"
        if still is not None:
            said = f"no progress for {still:.0f} s: no source gives anything, or a batch hangs"
        return Group(stage_table(self._name, self._stages, now - self._began), Text(said))
