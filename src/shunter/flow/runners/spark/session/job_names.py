"""What Spark's jobs are called in its UI: after the flow, and the stages that a job does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.session.kinds import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 200

_DESCRIPTION = "spark.job.description"


def job_name(flow: FlowGraph, *stages: Stage, batch: int | None = None) -> str:
    """Name a job that brings events into these stages, or of the whole flow, after its stages."""
    wanted = set(stages) or set(flow.stages)
    waiting = list(wanted)
    while waiting:
        above = {edge.upstream for edge in waiting.pop().inputs} - wanted
        wanted |= above
        waiting += above
    path = " → ".join(stage.name for stage in flow.in_order() if stage in wanted)
    which = "" if batch is None else f", batch {batch}"
    whole = f"flow {flow.name}{which}: {path}"
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"


@contextmanager
def named_jobs(session: SparkSession, name: str) -> Iterator[None]:
    """Call the jobs so that this thread starts in here. A Connect server names its own."""
    if is_connect(session):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, name)
    try:
        yield
    finally:
        with suppress(Exception):  # where Java has died, the run itself says so
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def ui_url(session: SparkSession) -> str | None:
    """Return where Spark's UI is; None where it has none, or a server far away has it."""
    return None if is_connect(session) else session.sparkContext.uiWebUrl
