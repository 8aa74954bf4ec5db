"""A flow run is a job of the type `shunter.flow`: leased, cancelled and tried again like any other.

`shunter worker --flows FOLDER` does such jobs, and so does any app after `flow_jobs(app, FOLDER)`.
A job names a flow file in that folder; no code comes with it, and nothing outside is loaded.
Checkpoints are in the folder too, so that whoever takes the job over goes on from the last one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta

from shunter.app import App, JobFunction
from shunter.context import Context
from shunter.errors import FlowError
from shunter.flow.engine.checkpoints import Checkpoints
from shunter.flow.graph import Flow
from shunter.flow.job_progress import FlowProgress, Told
from shunter.flow.loading import load
from shunter.flow.places import is_ours
from shunter.flow.report import StageReport
from shunter.flow.running import run_here, run_on_engines
from shunter.flow.terms import FLOW_JOB, FOLDER_VARIABLE, MOST_ENGINES, On
from shunter.model.identity import NAME_RULE, is_name

CHECKPOINTS = ".checkpoints"

Engines = Annotated[int, Meta(ge=1, le=MOST_ENGINES)]
Seconds = Annotated[float, Meta(gt=0)]


def flow_jobs(
    app: App, folder: str | os.PathLike[str] | None = None
) -> JobFunction[..., FlowProgress]:
    """Let an app run the flows of a folder; without one, of that which SHUNTER_FLOWS names."""
    fixed = None if folder is None else Path(folder).resolve()

    @app.job(name=FLOW_JOB)
    def run_flow(
        ctx: Context,
        flow: str,
        on: On = On.LOCAL,
        engines: Engines = 2,
        checkpoints: str | None = None,
        every: Seconds = 5.0,
        master: str | None = None,
        stream: bool = False,
    ) -> FlowProgress:
        """Run a flow. Its relative paths mean the folder, whichever worker it runs on."""
        root = fixed or _configured()
        spec = flow_in(root, flow)
        place = checkpoints_in(root, checkpoints or ctx.job_id)
        with contextlib.chdir(root), _loaded(spec, root) as loaded:
            told = Told(ctx, loaded, engines if on is On.ENGINES else 1)
            asked = Asked(spec, engines, place, every, master, is_stream=stream)
            reports = _RUNS[on](loaded, asked, told, ctx.cancelled)
        _forget(place, is_named=checkpoints is not None)
        return told.end(reports)

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


def _configured() -> Path:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise FlowError(
            "this worker has no folder of flows; start it with --flows FOLDER, or set "
            f"{FOLDER_VARIABLE}"
        )
    return Path(folder).resolve()


@dataclass(frozen=True)
class Asked:
    """How a job wants its flow run; `place` is for checkpoints."""

    spec: str
    engines: int
    place: Path
    every: float
    master: str | None
    is_stream: bool


def _run_here(
    flow: Flow, asked: Asked, told: Told, should_stop: Callable[[], bool]
) -> list[StageReport]:
    return run_here(
        flow,
        checkpoints=Checkpoints(asked.place),
        every=asked.every,
        progress=told.stages,
        should_stop=should_stop,
    )


def _run_on_engines(
    flow: Flow, asked: Asked, told: Told, should_stop: Callable[[], bool]
) -> list[StageReport]:
    return run_on_engines(
        flow,
        asked.spec,
        count=asked.engines,
        checkpoints=Checkpoints(asked.place),
        every=asked.every,
        progress=told.stages,
        should_stop=should_stop,
    )


def _run_on_spark(
    flow: Flow, asked: Asked, told: Told, should_stop: Callable[[], bool]
) -> list[StageReport]:
    """Run a flow on Spark: a batch from scratch, for it publishes all or nothing."""
    from shunter.flow.spark.batch import run_on_spark
    from shunter.flow.spark.session import lent_session
    from shunter.flow.spark.streaming import stream_on_spark

    with lent_session(asked.master) as session:
        if not asked.is_stream:
            return run_on_spark(flow, session, progress=told.tasks, should_stop=should_stop)
        return stream_on_spark(
            flow,
            session,
            checkpoints=asked.place,
            progress=told.stages,
            should_stop=should_stop,
        )


_RUNS: dict[On, Callable[[Flow, Asked, Told, Callable[[], bool]], list[StageReport]]] = {
    On.LOCAL: _run_here,
    On.ENGINES: _run_on_engines,
    On.SPARK: _run_on_spark,
}


def _forget(place: Path, *, is_named: bool) -> None:
    """Remove a job's own checkpoints at its end; those with a name are for others to go on."""
    if not is_named:
        shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        place.rmdir()


@contextlib.contextmanager
def _loaded(spec: str, folder: Path) -> Iterator[Flow]:
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
