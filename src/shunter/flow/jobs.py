"""A flow run is a job of the type `shunter.flow`: leased, cancelled and tried again like any other.

`shunter worker --flows FOLDER` does such jobs, and so does any app after `flow_jobs(app, FOLDER)`.
A job names a flow file in that folder; no code comes with it, and nothing outside is loaded.
Checkpoints are in the folder too, so that whoever takes the job over goes on from the last one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from msgspec import Meta

from shunter.app import App, JobFunction
from shunter.context import Context
from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.source_line import is_ours
from shunter.flow.job_progress import FlowProgress, FlowProgressReporter
from shunter.flow.loader import load
from shunter.flow.runners.port import RunOptions
from shunter.flow.runners.registry import runner
from shunter.flow.runners.spark.session.kinds import is_embedded
from shunter.flow.terms import FLOW_JOB, FOLDER_VARIABLE, MASTERS_VARIABLE, MOST_ENGINES, On
from shunter.model.identity import NAME_RULE, is_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINTS = ".checkpoints"

Engines = Annotated[int, Meta(ge=1, le=MOST_ENGINES)]
Seconds = Annotated[float, Meta(gt=0)]


def flow_jobs(
    app: App,
    folder: str | os.PathLike[str] | None = None,
    *,
    masters: Sequence[str] | None = None,
) -> JobFunction[..., FlowProgress]:
    """Let an app run the flows of a folder; without one, of that which SHUNTER_FLOWS names.

    `masters` are those of Spark's that jobs may name, beside local ones; defaults to what the
    settings of the worker have.
    """
    fixed = None if folder is None else Path(folder).resolve()

    @app.job(name=FLOW_JOB)
    def run_flow(
        ctx: Context,
        flow: str,
        on: On = On.SPARK,
        engines: Engines = 2,
        checkpoints: str | None = None,
        every: Seconds = 5.0,
        master: str | None = None,
        stream: bool = False,
    ) -> FlowProgress:
        """Run a flow. Its relative paths mean the folder, whichever worker it runs on."""
        _check_allowed(master, masters)
        root = fixed or _configured()
        spec = flow_in(root, flow)
        place = checkpoints_in(root, checkpoints or ctx.job_id)
        with contextlib.chdir(root), _loaded(spec, root) as loaded:
            nodes = engines if on is On.ENGINES else None
            told = FlowProgressReporter(ctx, loaded, nodes or 1, on=str(on))
            options = RunOptions(
                spec=spec,
                nodes=nodes,
                checkpoints=None if on is On.SPARK and not stream else place,
                every=None if on is On.SPARK else every,
                stream=stream,
                master=master,
                on_kept=told.kept,
            )
            with _session(on, loaded, options) as session:
                options = replace(options, session=session)
                report = runner(on).run(loaded, options, told.progress, ctx.cancelled)
        _forget(place, is_named=checkpoints is not None)
        return told.end(report.stages)

    return run_flow


def flow_in(folder: Path, spec: str) -> str:
    """Return where the flow is that `path/in/folder.py:name` names; refuse what is elsewhere."""
    place, colon, name = spec.partition(":")
    try:
        root = folder.resolve(strict=True)
        path = (root / place).resolve()
        is_inside = not os.path.isabs(place) and path.is_relative_to(root)
        is_file = is_inside and path.suffix == ".py" and path.is_file()
    except (OSError, ValueError):
        is_inside = is_file = False
    if not is_inside or ".." in Path(place).parts:
        raise FlowError(
            f"{spec!r} is not in this worker's folder of flows; name a file in there, such as "
            "temperatures.py or temperatures.py:flow"
        )
    if not is_file:
        raise FlowError(
            f"this worker's folder of flows has no Python file {place!r}; bring it there, or name "
            "another"
        )
    return f"{path}{colon}{name}"


def checkpoints_in(folder: Path, name: str) -> Path:
    """Return where the checkpoints of this name are, which may be a job's id."""
    if not is_name(name):
        raise FlowError(f"{name[:200]!r} can't name checkpoints: a name is {NAME_RULE}")
    return folder / CHECKPOINTS / quote(name, safe="")


def _check_allowed(master: str | None, masters: Sequence[str] | None) -> None:
    """Refuse a master that a job names on its own: a driver would speak with whoever is there."""
    if masters is None:
        masters = json.loads(os.environ.get(MASTERS_VARIABLE, "[]"))
    if master is None or is_embedded(master) or master in masters:
        return
    raise FlowError(
        f"this worker's jobs may not name the Spark master {master[:200]!r}; name one of "
        f"{', '.join(['local[*]', *masters])}, or add it to worker.spark_masters of its settings"
    )


def _configured() -> Path:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise FlowError(
            "this worker has no folder of flows; start it with --flows FOLDER, or set "
            f"{FOLDER_VARIABLE}"
        )
    return Path(folder).resolve()


@contextlib.contextmanager
def _session(on: On, flow: FlowGraph, options: RunOptions) -> Iterator[SparkSession | None]:
    """Lend a Spark session for one run on Spark that can begin."""
    if on is not On.SPARK:
        yield None
        return
    from shunter.flow.runners.spark.preflight import check_run
    from shunter.flow.runners.spark.session.spark_session import lent_session

    check_run(flow, options)
    with lent_session(options.master) as session:
        yield session


def _forget(place: Path, *, is_named: bool) -> None:
    """Remove a job's own checkpoints at its end; those with a name are for others to go on."""
    if not is_named:
        shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        place.rmdir()


@contextlib.contextmanager
def _loaded(spec: str, folder: Path) -> Iterator[FlowGraph]:
    """Load a flow for one run, and forget its modules then: files may change until the next."""
    known = set(sys.modules)
    try:
        yield load(spec)
    finally:
        for name in sys.modules.keys() - known:
            file = Path(getattr(sys.modules[name], "__file__", None) or "/")
            is_installed = is_ours(name) or file.is_relative_to(sys.prefix)
            if file.is_relative_to(folder) and not is_installed:
                del sys.modules[name]


app = App()
flow_jobs(app)
