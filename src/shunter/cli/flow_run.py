"""`shunter flow run`: which options go together, and a run as somebody at a terminal sees it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from rich.live import Live

from shunter.cli.outputs import as_line, outputs_of
from shunter.cli.spark_runs import run_and_show
from shunter.cli.stages import stage_table
from shunter.cli.stream_runs import stream_and_show
from shunter.cli.terminal import Terminal
from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runners.port import ENGINES, LOOPBACK, Progress, RunOptions, TasksDone
from shunter.flow.runners.registry import runner
from shunter.flow.runtime.progress import Pace
from shunter.flow.runtime.report import StageReport
from shunter.flow.terms import On
from shunter.shown_text import shown_json


@dataclass(frozen=True, kw_only=True)
class TypedOptions:
    """What was typed; None and () where nothing was said."""

    on: On
    master: str | None = None
    remote: str | None = None
    engines: int | None = None
    addresses: Sequence[str] = ()
    key_file: str = ""
    hosts: str | None = None
    network: str | None = None
    checkpoints: str | None = None
    every: float | None = None
    is_stream: bool = False
    max_events: int | None = None
    conf: Sequence[str] = ()

    def check(self) -> None:
        """Raise where some of it makes no sense together."""
        for name, on, value in self._of_one_runner():
            if value and self.on is not on:
                raise FlowError(f"{name} is for --on {on}; say that too, or leave {name} out")
        self.settings()
        if self.conf and self.remote:
            raise FlowError("--conf is for a Spark that is started here, and --remote runs already")
        if self.max_events and not self.is_stream:
            raise FlowError("--max-events is for --stream; say that too, or leave it out")
        if self.remote and (self.master or self.is_stream):
            raise FlowError(
                "--remote: a Spark Connect server stands in for --master, and does batch runs "
                "alone; leave out --master and --stream, or use --master without --remote"
            )
        if self.checkpoints and self.on is On.SPARK and not self.is_stream:
            raise FlowError(
                "--checkpoints: a batch run on Spark keeps none; leave it out, or add --stream"
            )
        if self.hosts and self.addresses:
            raise FlowError("--hosts places new engines on Spark; name no --engine beside it")

    def settings(self) -> dict[str, str]:
        """Return what --conf said; raise a FlowError for what is no setting of Spark's."""
        found = {}
        for each in self.conf:
            key, equals, value = each.partition("=")
            if not equals or not key.strip().startswith("spark."):
                raise FlowError(
                    f"--conf {each}: that is no setting of Spark's; write it as "
                    "spark.driver.memory=4g"
                )
            found[key.strip()] = value.strip()
        return found

    @property
    def nodes(self) -> int:
        """How many nodes a run has that is not on Spark."""
        if self.on is not On.ENGINES:
            return 1
        return len(self.addresses) or self.engines or ENGINES

    def _of_one_runner(self) -> list[tuple[str, On, object]]:
        return [
            ("--master", On.SPARK, self.master),
            ("--remote", On.SPARK, self.remote),
            ("--stream", On.SPARK, self.is_stream),
            ("--conf", On.SPARK, self.conf),
            ("--engines", On.ENGINES, self.engines),
            ("--engine", On.ENGINES, self.addresses),
            ("--hosts", On.ENGINES, self.hosts),
            ("--network", On.ENGINES, self.network),
        ]


def run_and_print(flow: FlowGraph, spec: str, options: TypedOptions, *, as_json: bool) -> None:
    """Run a flow to its end, and print what its stages have done and where its output is."""
    began = time.monotonic()
    stages, nodes = _run(flow, spec, options, is_shown=not as_json)
    took = time.monotonic() - began
    if as_json:
        document = {
            "flow": flow.name,
            "seconds": took,
            "stages": msgspec.to_builtins(stages),
            "outputs": msgspec.to_builtins(outputs_of(flow)),
        }
        sys.stdout.write(shown_json(json.dumps(document, indent=2)) + "\n")
        return
    console = Terminal()
    console.print(stage_table(flow.name, Pace(flow, nodes, now=0.0).of(stages, now=took), took))
    for output in outputs_of(flow):
        console.print(as_line(output), soft_wrap=True, highlight=False)


def _run(
    flow: FlowGraph, spec: str, options: TypedOptions, *, is_shown: bool
) -> tuple[list[StageReport], int]:
    """Return what stages have done, and on how many nodes."""
    if options.is_stream:
        return stream_and_show(
            flow,
            master=options.master,
            conf=options.settings(),
            checkpoints=options.checkpoints,
            every=options.every,
            max_events=options.max_events,
            is_shown=is_shown,
        )
    if options.on is On.SPARK:
        return run_and_show(
            flow,
            master=options.master,
            remote=options.remote,
            conf=options.settings(),
            is_shown=is_shown,
        )
    with _Display(flow, options.nodes, is_shown=is_shown) as display:
        how = RunOptions(
            spec=spec,
            nodes=options.nodes,
            addresses=options.addresses,
            key_file=options.key_file,
            hosts=options.hosts,
            network=options.network or LOOPBACK,
            checkpoints=options.checkpoints,
            every=options.every,
        )
        report = runner(options.on).run(flow, how, display.show, lambda: False)
        return report.stages, report.nodes


class _Display:
    """A table that changes while a flow runs, from its second second on."""

    def __init__(self, flow: FlowGraph, nodes: int, *, is_shown: bool) -> None:
        self._flow = flow
        self._began = time.monotonic()
        self._pace = Pace(flow, nodes, now=self._began)
        self._live = Live(console=Terminal(stderr=True), transient=True) if is_shown else None

    def __enter__(self) -> _Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, reports: Progress) -> None:
        assert not isinstance(reports, TasksDone), "told by Spark alone"
        now = time.monotonic()
        stages, took = self._pace.of(reports, now=now), now - self._began
        if self._live is not None and took > 1.0:
            self._live.update(stage_table(self._flow.name, stages, took))
