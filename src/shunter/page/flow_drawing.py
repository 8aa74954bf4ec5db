"""A running flow as a graph: where its stages and edges lie, and what is said at each. Pure.

Stages lie in columns, each right of all that feed it. What is drawn comes from what the run
itself reports (`flow/job_progress.py`), so a page needs no flow file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shunter.flow.job_progress import FlowProgress, SafePoint
from shunter.flow.runtime.progress import EdgeProgress, StageProgress
from shunter.model.job import Job
from shunter.shown_text import shown

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 188, 66, 96, 22, 10
MOST_STAGES = 200
LONGEST_NAME = 24

FULL_SHARE = 0.8
"""An inbox that is fuller than this pushes back on what comes before it."""


class StageBox(Struct, frozen=True):
    """One stage in the picture."""

    stage: StageProgress
    x: int
    y: int
    name: str
    is_full: bool


class EdgeLine(Struct, frozen=True):
    """One edge in the picture: its path, and where its figures stand.

    `waiting` counts events on it that the next stage has not taken; None where that has several
    inputs and nobody knows by which one they came.
    """

    edge: EdgeProgress
    path: str
    tip: str
    x: int
    y: int
    waiting_y: int
    is_full: bool
    waiting: int | None


class FlowDrawing(Struct, frozen=True):
    """The whole picture."""

    width: int
    height: int
    boxes: tuple[StageBox, ...]
    lines: tuple[EdgeLine, ...]


def flow_progress(job: Job) -> FlowProgress | None:
    """Read what a flow job has told last; None if it has told nothing that can be read."""
    try:
        if job.result is not None:
            return msgspec.msgpack.decode(job.result, type=FlowProgress)
        if job.progress is not None and job.progress.note:
            return msgspec.json.decode(job.progress.note, type=FlowProgress)
    except msgspec.MsgspecError:
        return None
    return None


def drawn(progress: FlowProgress) -> FlowDrawing:
    """Lay a flow out; one without known edges is drawn as a line of its stages."""
    stages = {stage.name: stage for stage in progress.stages[:MOST_STAGES]}
    edges = [it for it in progress.edges if it.upstream in stages and it.downstream in stages]
    columns = _columns(list(stages), edges)
    rows: dict[int, int] = {}
    boxes: dict[str, StageBox] = {}
    for name, stage in stages.items():
        column = columns[name]
        row = rows.get(column, 0)
        rows[column] = row + 1
        boxes[name] = StageBox(
            stage,
            MARGIN + column * (WIDTH + GAP_X),
            MARGIN + row * (HEIGHT + GAP_Y),
            _short(name),
            is_full(stage),
        )
    width = MARGIN * 2 + (max(columns.values(), default=0) + 1) * (WIDTH + GAP_X) - GAP_X
    height = MARGIN * 2 + max(rows.values(), default=1) * (HEIGHT + GAP_Y) - GAP_Y
    inputs = Counter(edge.downstream for edge in edges)
    lines = tuple(_line(edge, boxes, inputs[edge.downstream] == 1) for edge in edges)
    return FlowDrawing(width, height, tuple(boxes.values()), lines)


def is_full(stage: StageProgress) -> bool:
    """True if a stage pushes back: its inboxes have hardly any room."""
    return stage.capacity > 0 and stage.waiting >= FULL_SHARE * stage.capacity


def _columns(names: Sequence[str], edges: Sequence[EdgeProgress]) -> dict[str, int]:
    columns = dict.fromkeys(names, 0)
    for _ in names:  # as many rounds as the longest way can have steps, whatever was reported
        moved = False
        for edge in edges:
            least = columns[edge.upstream] + 1
            if columns[edge.downstream] < least < len(names):
                columns[edge.downstream], moved = least, True
        if not moved:
            break
    return columns if edges else {name: at for at, name in enumerate(names)}


def safe_at(job: Job, progress: FlowProgress, point: SafePoint) -> float | None:
    """Return when a checkpoint was kept, or a batch counted, by the clocks of people."""
    told = job.progress.at if job.progress is not None else job.execution.ended
    return None if told is None else told - max(0.0, progress.seconds - point.at)


def _line(edge: EdgeProgress, boxes: dict[str, StageBox], is_only: bool) -> EdgeLine:
    start, end = boxes[edge.upstream], boxes[edge.downstream]
    x1, y1 = start.x + WIDTH, start.y + HEIGHT // 2
    x2, y2 = end.x - 6, end.y + HEIGHT // 2
    bend = (x2 - x1) // 2
    path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
    tip = f"{x2 + 6},{y2} {x2 - 2},{y2 - 4} {x2 - 2},{y2 + 4}"
    is_from_above = y1 < y2  # then the curve is above its end, and there is room below it
    said_at = ((x1 + x2) // 2 if y1 == y2 else x2 - 34), y2 + (14 if is_from_above else -7)
    waiting = end.stage.lag if is_only else None
    below = said_at[1] + (13 if is_from_above else 21)
    return EdgeLine(edge, path, tip, *said_at, below, end.is_full, waiting)


def _short(name: str) -> str:
    text = shown(name).replace("\n", " ")
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
