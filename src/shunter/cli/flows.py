"""`shunter flow run|check|graph` and `shunter engine`."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from shunter.cli.serving import set_up_logging
from shunter.flow.drawing import as_mermaid, as_svg, as_text
from shunter.flow.engine.checkpoint_stores import KeepsCheckpoints, checkpoints_at
from shunter.flow.engine.deployer import FlowRun
from shunter.flow.engine.engine import Engine
from shunter.flow.engine.local_engines import LocalEngines
from shunter.flow.engine.network import LOOPBACK
from shunter.flow.graph import Flow
from shunter.flow.loading import load
from shunter.flow.local import LocalRun
from shunter.flow.report import StageReport
from shunter.worker.procfs import die_with_parent

app = typer.Typer(
    name="flow",
    help="Run flows, look at them, check them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

REFRESH_SECONDS = 0.5

FlowArgument = Annotated[
    str, typer.Argument(metavar="FILE[:NAME]", help="Where the flow is: a file or a module.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class On(StrEnum):
    """What a flow runs on."""

    LOCAL = "local"
    ENGINES = "engines"


class Shape(StrEnum):
    """How a flow is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


_DRAWN: dict[Shape, Callable[[Flow], str]] = {
    Shape.TEXT: as_text,
    Shape.MERMAID: as_mermaid,
    Shape.SVG: as_svg,
}


@app.command()
def run(
    flow: FlowArgument,
    on: Annotated[On, typer.Option(help="In this process, or on engines.")] = On.LOCAL,
    engines: Annotated[
        int, typer.Option(min=1, help="Start so many engines here, where none are named.")
    ] = 2,
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="tcp://HOST:PORT", help="An engine that runs; may be repeated."),
    ] = None,
    network: Annotated[
        str, typer.Option(help="Where inboxes listen: 10.1.0.0/16, or how addresses begin.")
    ] = LOOPBACK,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Keep checkpoints, from which a later run goes on: a folder, sqlite:///FILE or "
            "mongodb://HOST/DATABASE.",
        ),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Run a flow to its end, and say what each stage has done."""
    loaded = load(flow)
    began = time.monotonic()
    with _Display(loaded, is_shown=not as_json) as display:
        if on is On.LOCAL:
            stages = _run_here(loaded, display)
        else:
            stages = _run_on_engines(
                loaded,
                flow,
                display,
                count=engines,
                addresses=engine or [],
                network=network,
                checkpoints=checkpoints_at(checkpoints, loaded.name) if checkpoints else None,
                every=every,
            )
    took = time.monotonic() - began
    if as_json:
        document = {"flow": loaded.name, "seconds": took, "stages": msgspec.to_builtins(stages)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        Console().print(_table(loaded, stages, took))


@app.command()
def check(flow: FlowArgument) -> None:
    """Load a flow and say whether it can run."""
    loaded = load(flow)
    loaded.check()
    Console().print(f"flow {loaded.name!r}: {len(loaded.stages)} stages, nothing wrong")


@app.command()
def graph(
    flow: FlowArgument,
    shape: Annotated[Shape, typer.Option("--as", help="How to draw it.")] = Shape.TEXT,
) -> None:
    """Draw a flow."""
    sys.stdout.write(_DRAWN[shape](load(flow)).rstrip("\n") + "\n")


def engine(
    node: Annotated[int, typer.Option(min=0, help="This engine's number.")],
    nodes: Annotated[int, typer.Option(min=1, help="Of how many; numbers are 0 to NODES-1.")],
    listen: Annotated[str, typer.Option(help="Where deployers connect.")] = "tcp://127.0.0.1:5570",
    ready: Annotated[Path | None, typer.Option(hidden=True)] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run an engine, which takes part in flows."""
    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    serving = Engine(node, nodes, listen)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: serving.stop())
    if ready is not None:
        staged = ready.with_suffix(".part")
        staged.write_text(json.dumps({"endpoint": serving.endpoint}))
        staged.rename(ready)
    serving.serve()


def _run_here(flow: Flow, display: _Display) -> list[StageReport]:
    run = LocalRun(flow)
    shown = time.monotonic()

    def look() -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown >= REFRESH_SECONDS:
            shown = now
            display.show(run.report.stages)

    return run.run(look).stages


def _run_on_engines(
    flow: Flow,
    spec: str,
    display: _Display,
    *,
    count: int,
    addresses: Sequence[str],
    network: str,
    checkpoints: KeepsCheckpoints | None,
    every: float,
) -> list[StageReport]:
    options: dict[str, Any] = {
        "network": network,
        "checkpoints": checkpoints,
        "every": every,
        "progress": display.show,
    }
    if addresses:
        return FlowRun(flow, spec, addresses, **options).run()
    with (
        tempfile.TemporaryDirectory(prefix="shunter-engines-") as folder,
        LocalEngines(count, Path(folder)) as started,
    ):
        return FlowRun(flow, spec, started.endpoints, keeper=started, **options).run()


class _Display:
    """A table that changes while a flow runs, from its second second on."""

    def __init__(self, flow: Flow, *, is_shown: bool) -> None:
        self._flow = flow
        self._began = time.monotonic()
        self._live = Live(console=Console(stderr=True), transient=True) if is_shown else None

    def __enter__(self) -> _Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, stages: Sequence[StageReport]) -> None:
        took = time.monotonic() - self._began
        if self._live is not None and took > 1.0:
            self._live.update(_table(self._flow, stages, took))


def _table(flow: Flow, stages: Sequence[StageReport], seconds: float) -> Table:
    table = Table(title=f"flow {flow.name}, {seconds:.1f} s")
    table.add_column("stage")
    table.add_column("kind")
    for name in ("in", "out", "failed", "per second", "waiting"):
        table.add_column(name, justify="right")
    for stage in stages:
        moved = max(stage.taken, stage.given)
        table.add_row(
            stage.name,
            stage.kind,
            f"{stage.taken:,}" if stage.taken else "",
            f"{stage.given:,}" if stage.given else "",
            f"{stage.failed:,}" if stage.failed else "",
            f"{moved / max(seconds, 1e-9):,.0f}",
            f"{stage.waiting:,} of {stage.capacity:,}" if stage.capacity else "",
        )
    return table
