"""`shunter flow run|submit|check|diff|graph` and `shunter engine`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.terminal import Terminal
from shunter.errors import AppError, FlowError
from shunter.flow.terms import FOLDER_VARIABLE, MASTERS_VARIABLE, MOST_ENGINES, On
from shunter.settings_sources import load_settings
from shunter.shown_text import shown

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


@app.command()
def run(
    flow: FlowArgument,
    on: Annotated[On, typer.Option(help="On Spark, on engines, or in this process.")] = On.SPARK,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark's master: spark://HOST:PORT, yarn, k8s://HOST:PORT; else that of Spark's "
            "configuration, else Spark runs here, as local[*]."
        ),
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="sc://HOST:PORT", help="A Spark Connect server, in place of a master."
        ),
    ] = None,
    engines: Annotated[
        int | None,
        typer.Option(min=1, help="Start so many engines here, where none are named; else 2."),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="tcp://HOST:PORT", help="An engine that runs; may be repeated."),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="spark://HOST:PORT",
            help="Have the engines in the executors of this Spark, rather than here.",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Where inboxes listen: 10.1.0.0/16, or how addresses begin; else on loopback."
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Keep checkpoints, from which a later run goes on: a folder, sqlite:///FILE or "
            "mongodb://HOST/DATABASE; with --stream a folder, or a URL such as s3://BUCKET/FOLDER.",
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two checkpoints, 5 by default; with --stream between "
            "two batches, which else follow each other at once."
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="On Spark: batch by batch as events come, exactly once."),
    ] = False,
    max_events: Annotated[
        int | None,
        typer.Option(min=1, help="With --stream: how many events of a source a batch has at most."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A setting of the Spark that is started, such as spark.driver.memory=4g; may be "
            "repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a flow to its end, and say what each stage has done."""
    from shunter.cli.flow_run import TypedOptions, run_and_print
    from shunter.flow.loader import load

    options = TypedOptions(
        on=on,
        master=master,
        remote=remote,
        engines=engines,
        addresses=tuple(engine or ()),
        hosts=hosts,
        network=network,
        checkpoints=checkpoints,
        every=every,
        is_stream=stream,
        max_events=max_events,
        conf=tuple(conf or ()),
        key_file=load_settings(None, os.environ, {}).settings.auth.key_file if engine else "",
    )
    options.check()
    run_and_print(load(flow), flow, options, as_json=as_json)


@app.command()
def submit(
    flow: Annotated[
        str,
        typer.Argument(metavar="FILE[:NAME]", help="Which flow: a file in the workers' folder."),
    ],
    on: Annotated[
        On, typer.Option(help="On Spark, on engines, or in the worker's process.")
    ] = On.SPARK,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master: spark://HOST:PORT; else Spark runs at the worker."),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="On Spark, as a stream that keeps checkpoints.")
    ] = False,
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
        float | None, typer.Option(help="Wait at most this many seconds.")
    ] = None,
    app_spec: Annotated[
        str | None,
        typer.Option("--app", help="The workers' app, if it has a codec: module:app or a file."),
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
    from shunter.app import load_app, payload_of
    from shunter.cli import flow_submission
    from shunter.cli.job_submission import options_from

    loaded = load_settings(config_file, os.environ, {"client.dispatchers": dispatchers})
    if on is not On.SPARK and (master or stream):
        raise FlowError("--master and --stream are for Spark; say --on spark")
    payload = payload_of(
        flow=flow,
        on=on,
        engines=engines,
        checkpoints=checkpoints,
        every=every,
        master=master,
        stream=stream,
    )
    raise typer.Exit(
        flow_submission.submit(
            loaded.settings,
            payload,
            options_from(priority=priority, timeout=timeout, retries=retries),
            wait=wait or wait_timeout is not None,
            wait_timeout=wait_timeout,
            as_json=as_json,
            codec=None if app_spec is None else load_app(app_spec).codec,
        )
    )


@app.command()
def check(flow: FlowArgument) -> None:
    """Load a flow and say whether it can run."""
    from shunter.flow.graph.stages import StageKind
    from shunter.flow.loader import load

    loaded = load(flow)
    loaded.check()
    console = Terminal()
    console.print(f"flow {loaded.name!r}: {len(loaded.stages)} stages, nothing wrong")
    if any(stage.kind in (StageKind.AGGREGATE, StageKind.FRAME) for stage in loaded.stages):
        from shunter.flow.runners.spark.columns.explanation import explained

        for line in explained(loaded):
            console.print(f"on Spark, {line}", highlight=False)


@app.command()
def diff(
    flow: FlowArgument,
    checkpoints: Annotated[
        str,
        typer.Option(metavar="WHERE", help="The checkpoint of a stream on Spark: a folder or URL."),
    ],
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="On how many nodes it is to go on; else on as many as before."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what of a stream's checkpoint a changed flow would keep, drop or be refused for.

    Exit codes: 0 the same flow, 1 it differs and can go on, 2 it would be refused.
    """
    from shunter.cli.flow_difference import show_difference
    from shunter.flow.loader import load

    code = show_difference(load(flow), checkpoints, nodes=nodes, as_json=as_json)
    raise typer.Exit(code)


@app.command()
def graph(
    flow: FlowArgument,
    shape: Annotated[Shape, typer.Option("--as", help="How to draw it.")] = Shape.TEXT,
) -> None:
    """Draw a flow."""
    from shunter.flow.loader import load
    from shunter.flow.pictures.drawing import as_mermaid, as_svg, as_text

    drawn = {Shape.TEXT: as_text, Shape.MERMAID: as_mermaid, Shape.SVG: as_svg}[shape]
    sys.stdout.write(shown(drawn(load(flow))).rstrip("\n") + "\n")


def engine(
    node: Annotated[int, typer.Option(min=0, help="This engine's number.")],
    nodes: Annotated[int, typer.Option(min=1, help="Of how many; numbers are 0 to NODES-1.")],
    listen: Annotated[
        str, typer.Option(help="Where deployers connect; default: a socket of this user's own.")
    ] = "",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Listen at an address that others reach, this host's other users included.",
        ),
    ] = False,
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--flows",
            metavar="FOLDER",
            help="Where flows may come from; may be repeated. Default, if others reach the "
            "engine: the current folder.",
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", help="A TOML file; ./shunter.toml is used where there is one."),
    ] = None,
    ready: Annotated[Path | None, typer.Option(hidden=True)] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run an engine, which takes part in flows. With `auth.key_file` it demands that very key."""
    from shunter.cli.engine_keys import watched_keys
    from shunter.cli.processes import set_up_logging
    from shunter.flow.loader import load, load_within
    from shunter.flow.runners.engines.engine import Engine
    from shunter.flow.runners.engines.network import engine_endpoint, is_private
    from shunter.worker.procfs import die_with_parent

    if parent is not None:
        die_with_parent(parent)
    set_up_logging()
    where = listen or engine_endpoint(str(node))
    chosen = load
    if folders or not is_private(where):
        chosen = partial(load_within, folders=folders or [Path.cwd()])
    settings = load_settings(config_file, os.environ, {}).settings
    keys = None
    if settings.auth.key_file and not is_private(where):
        keys = watched_keys(settings)
    serving = Engine(node, nodes, where, is_insecure=insecure, keys=keys, load=chosen)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: serving.stop())
    if ready is not None:
        staged = ready.with_suffix(".part")
        staged.write_text(json.dumps({"endpoint": serving.endpoint}))
        staged.rename(ready)
    serving.serve()


def allow_masters(masters: Sequence[str]) -> None:
    """Tell the children of a worker which masters of Spark's their jobs may name."""
    os.environ[MASTERS_VARIABLE] = json.dumps(masters)


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
