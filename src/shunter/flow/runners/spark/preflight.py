"""What can be refused without Spark is refused before it starts, which takes many seconds.

Nothing is opened here; of others, only a standalone master is asked whether it answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.location import Location
from shunter.flow.runners.port import RunOptions
from shunter.flow.runners.spark.session.kinds import is_connect, is_embedded, is_local
from shunter.flow.runners.spark.session.masters import check_master, check_reachable
from shunter.flow.runners.spark.session.spark_session import has_local_default
from shunter.flow.runners.spark.stream.checkpoint import checkpoint_identity, compared
from shunter.flow.runners.spark.stream.fitness import check_streamable


def check_run(flow: FlowGraph, options: RunOptions) -> None:
    """Raise a FlowError for the first thing that keeps this run from beginning."""
    flow.check()
    if options.master is not None and options.session is None:
        check_master(options.master)
        check_reachable(options.master)
    if options.conf and options.remote is not None:
        raise FlowError(
            f"conf: {', '.join(options.conf)} can't be set on a Spark Connect server, which runs "
            "already; set it where that is started"
        )
    if options.stream:
        _check_stream(flow, options)
    kinds = {StageKind.SINK, *([StageKind.SOURCE] if _reads_here(options) else [])}
    for stage in flow.stages:
        if stage.kind in kinds:
            _check(stage)
    if callable(check := getattr(flow.on_error, "check", None)):
        check()


def _check_stream(flow: FlowGraph, options: RunOptions) -> None:
    check_streamable(flow)
    folder = options.checkpoints
    if not isinstance(folder, str | os.PathLike):
        raise FlowError(
            "a stream needs a folder from which a later run can go on; name one with "
            "checkpoints=… (--checkpoints), and on a cluster one that all its hosts see, or a URL "
            "such as s3://BUCKET/FOLDER"
        )
    if options.remote is not None or is_connect(options.session):
        raise FlowError(
            "a stream needs a driver of its own, which Spark Connect has not got; use --master, or "
            "a SparkSession without remote()"
        )
    if options.max_events is not None and options.max_events < 1:
        raise FlowError(f"max_events is {options.max_events}; let a batch have 1 event or more")
    place = Location.of(folder)
    if (kept := checkpoint_identity(place)) is not None:
        compared(flow, kept, options.nodes or kept.nodes)[1].check(place)


def _check(stage: Stage) -> None:
    """Ask a source or a sink that can tell, and refuse what no other process can read."""
    if stage.kind is StageKind.SOURCE and isinstance(stage.what, Iterator):
        raise FlowError(
            "it can be read only once, and in this process alone; pass a function that returns it "
            "anew, or run the flow with --on local",
            stage=stage.name,
            place=str(stage.where),
        )
    check: Any = getattr(stage.what, "check", None)
    if not callable(check):
        return
    try:
        check()
    except FlowError as error:
        if error.stage:
            raise
        raise FlowError(str(error), stage=stage.name, place=str(stage.where)) from error


def _reads_here(options: RunOptions) -> bool:
    """True if sources are read on this machine; executors elsewhere may have other files."""
    if options.session is not None:
        return is_local(options.session)
    if options.remote is not None:
        return False
    return has_local_default() if options.master is None else is_embedded(options.master)
