"""The stages of a flow run as a table: the same while it runs, at its end, and in a job's story."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from shunter.flow.job_progress import FlowProgress
from shunter.flow.runtime.progress import StageProgress
from shunter.flow.terms import FLOW_JOB
from shunter.model.job import Job


def stage_table(flow: str, stages: Sequence[StageProgress], seconds: float) -> Table:
    """Make the table of one run."""
    table = Table(title=f"flow {flow}, {seconds:.1f} s", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("stage", overflow="fold")
    for name in ("kind", "in", "out", "failed", "per second", "lag", "waiting"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for stage in stages:
        table.add_row(
            stage.name,
            stage.kind,
            f"{stage.taken:,}" if stage.taken else "",
            f"{stage.given:,}" if stage.given else "",
            f"{stage.failed:,}" if stage.failed else "",
            f"{stage.per_second:,.0f}",
            _lag(stage),
            f"{stage.waiting:,} of {stage.capacity:,}" if stage.capacity else "",
        )
    return table


def _lag(stage: StageProgress) -> str:
    if stage.source_lag is not None:
        return str(stage.source_lag)
    return f"{stage.lag:,}" if stage.lag else ""


def table_of_job(job: Job) -> RenderableType | None:
    """Make the table of a flow job that runs or has ended; None of any other job."""
    if job.type != FLOW_JOB:
        return None
    try:
        if job.result is not None:
            found = msgspec.msgpack.decode(job.result, type=FlowProgress)
        elif job.progress is not None:
            found = msgspec.json.decode(job.progress.note, type=FlowProgress)
        else:
            return None
    except msgspec.DecodeError:
        return None
    return shown(found)


def shown(found: FlowProgress) -> RenderableType:
    """Make what people see of a run: its stages, Spark's tasks, and whether it stands still."""
    lines: list[RenderableType] = []
    if found.stages and found.tasks is None:
        lines.append(stage_table(found.flow, found.stages, found.seconds))
    if found.tasks is not None:
        done, total = found.tasks
        lines.append(
            f"flow {found.flow}, {found.seconds:.1f} s: {done:,} of {total:,} of Spark's tasks done"
        )
    if found.still is not None:
        lines.append(f"it is running, but nothing has moved for {found.still:.0f} s")
    return Group(*lines)
