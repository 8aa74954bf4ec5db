"""`shunter flow run|submit|check|graph` and `shunter engine`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from shunter.app import payload_of
from shunter.cli import flow_submitting
from shunter.cli.serving import set_up_logging
from shunter.cli.spark_runs import run_and_show
from shunter.cli.stages import stage_table
from shunter.cli.submitting import options_from
from shunter.errors import AppError, FlowError
from shunter.flow.drawing import as_mermaid, as_svg, as_text
from shunter.flow.engine.checkpoint_stores import checkpoints_at
from shunter.flow.engine.engine import Engine
from shunter.flow.engine.network import LOOPBACK
from shunter.flow.graph import Flow
from shunter.flow.jobs import FOLDER_VARIABLE, MOST_ENGINES
from shunter.flow.loading import load
from shunter.flow.progress import Pace
from shunter.flow.report import StageReport
from shunter.flow.running import On, run_here, run_on_engines
from shunter.settings_sources import load_settings
from shunter.worker.procfs import die_with_parent

app = typer.Typer(
    name="flow",
    help="Run flows, look at them, check them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FlowArgument = Annotated[
    str, typer.Argument(metavar="FILE[:NAME]", help="Where the flow is: a file or a module.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class Shape(StrEnum):
    """How a flow is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


class Runner(StrEnum):
    """What runs a flow."""

    LOCAL = "local"
    ENGINES = "engines"
    SPARK = "spark"


_DRAWN: dict[Shape, Callable[[Flow], str]] = {
    Shape.TEXT: as_text,
    Shape.MERMAID: as_mermaid,
    Shape.SVG: as_svg,
}


@app.command()
def run(
    flow: FlowArgument,
    on: Annotated[
        Runner, typer.Option(help="In this process, on engines, or on Spark.")
    ] = Runner.LOCAL,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master: spark://HOST:PORT; else Spark runs here, as local[*]."),
    ] = None,
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
    if checkpoints and on is Runner.SPARK:
        raise FlowError("--checkpoints: a run on Spark keeps none; leave it out, or run --on local")
    kept = checkpoints_at(checkpoints, loaded.name) if checkpoints else None
    nodes = (len(engine) if engine else engines) if on is Runner.ENGINES else 1
    began = time.monotonic()
    is_own = on is not Runner.SPARK
    with _Display(loaded, nodes, is_shown=is_own and not as_json) as display:
        if on is Runner.SPARK:
            stages, nodes = run_and_show(loaded, master=master, is_shown=not as_json)
        elif on is Runner.LOCAL:
            stages = run_here(loaded, checkpoints=kept, every=every, progress=display.show)
        else:
            stages = run_on_engines(
                loaded,
                flow,
                count=engines,
                addresses=engine or [],
                network=network,
                checkpoints=kept,
                every=every,
                progress=display.show,
            )
    took = time.monotonic() - began
    if as_json:
        document = {"flow": loaded.name, "seconds": took, "stages": msgspec.to_builtins(stages)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        paced = Pace(loaded, nodes, now=0.0).of(stages, now=took)
        Console().print(stage_table(loaded.name, paced, took))


@app.command()
def submit(
    flow: Annotated[
        str,
        typer.Argument(metavar="FILE[:NAME]", help="Which flow: a file in the workers' folder."),
    ],
    on: Annotated[On, typer.Option(help="In the worker's process, or on engines.")] = On.LOCAL,
    engines: Annotated[
        int, typer.Option(min=1, max=MOST_ENGINES, help="So many engines, which the worker starts.")
    ] = 2,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Go on from the checkpoints of this name, and keep some."
        ),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 5.0,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds the run may take.")] = None,
    retries: Annotated[int | None, typer.Option(help="How often to try again.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    wait_timeout: Annotated[
        float | None, typer.Option(help="Wait so many seconds at most.")
    ] = None,
    dispatchers: Annotated[
        list[str] | None,
        typer.Option("--dispatcher", help="Where a dispatcher listens for us; may be repeated."),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a flow run as a job, for a worker with --flows, and watch it if you like."""
    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    payload = payload_of(flow=flow, on=on, engines=engines, checkpoints=checkpoints, every=every)
    raise typer.Exit(
        flow_submitting.submit(
            loaded.settings.client_dispatchers,
            payload,
            options_from(priority=priority, timeout=timeout, retries=retries),
            wait=wait or wait_timeout is not None,
            wait_timeout=wait_timeout,
            as_json=as_json,
        )
    )


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
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this host, to whoever comes.")
    ] = False,
    ready: Annotated[Path | None, typer.Option(hidden=True)] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run an engine, which takes part in flows."""
    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    serving = Engine(node, nodes, listen, is_insecure=insecure)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: serving.stop())
    if ready is not None:
        staged = ready.with_suffix(".part")
        staged.write_text(json.dumps({"endpoint": serving.endpoint}))
        staged.rename(ready)
    serving.serve()


def app_or_flows(app_spec: str | None, folder: Path | None) -> str:
    """Return which app a worker is to serve: the one that was named, or ours for a folder."""
    if folder is None:
        if app_spec is None:
            raise AppError("nothing to do was named; give --app, or --flows and a folder")
        return app_spec
    if app_spec is not None:
        raise AppError(
            "--app and --flows were both given; give one of the two, or call "
            "shunter.flow.jobs.flow_jobs(app, folder) in the app"
        )
    if not folder.is_dir():
        raise AppError(f"--flows: there is no folder {folder}; make it, or name another")
    os.environ[FOLDER_VARIABLE] = str(folder.resolve())
    return "shunter.flow.jobs:app"


class _Display:
    """A table that changes while a flow runs, from its second second on."""

    def __init__(self, flow: Flow, nodes: int, *, is_shown: bool) -> None:
        self._flow = flow
        self._began = time.monotonic()
        self._pace = Pace(flow, nodes, now=self._began)
        self._live = Live(console=Console(stderr=True), transient=True) if is_shown else None

    def __enter__(self) -> _Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, reports: Sequence[StageReport]) -> None:
        now = time.monotonic()
        stages, took = self._pace.of(reports, now=now), now - self._began
        if self._live is not None and took > 1.0:
            self._live.update(stage_table(self._flow.name, stages, took))
