"""Where the stages of a flow lie in a picture, from left to right. Pure.

Stages lie in columns, each right of all that feed it, and in a column in the order of those, so
that few edges cross. An edge over several columns has a bend in each that it passes, which keeps
it clear of the boxes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.stages import Edge, Stage

BOX_HEIGHT = 46.0
BEND_HEIGHT = 14.0
ROW_GAP = 18.0
MARGIN = 24.0

Point = tuple[float, float]
Measure = Callable[[Stage], float]


@dataclass(eq=False, slots=True)
class Box:
    """A stage in the picture, or the bend of an edge; `x`, `y` is the upper left corner."""

    stage: Stage | None
    column: int
    upstream: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def height(self) -> float:
        return BEND_HEIGHT if self.stage is None else BOX_HEIGHT

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    """`boxes` has one for each stage; `ways` has the points that each edge goes through."""

    boxes: dict[Stage, Box]
    ways: dict[Edge, list[Point]]
    width: float
    height: float


def laid_out(flow: FlowGraph, *, width_of: Measure, gap_before: Callable[[Edge], float]) -> Layout:
    """Lay a flow out; `gap_before` says how much room an edge needs before its last stage."""
    columns = _columns(flow)
    boxes = {stage: Box(stage, column) for stage, column in columns.items()}
    bends = {edge: _bends(edge, boxes) for edge in flow.edges}
    everything = [*boxes.values(), *(bend for passed in bends.values() for bend in passed)]
    by_column: list[list[Box]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for box in everything:
        by_column[box.column].append(box)

    x = MARGIN
    for number, column in enumerate(by_column):
        arriving = [edge for edge in flow.edges if columns[edge.downstream] == number]
        x += max(map(gap_before, arriving), default=0.0)
        width = max(width_of(box.stage) for box in column if box.stage is not None)
        for box in column:
            box.x, box.width = x, width
        _stack(column)
        x += width

    return Layout(
        boxes,
        {edge: _way(edge, boxes, bends) for edge in flow.edges},
        width=x + MARGIN,
        height=max((box.y + box.height for box in everything), default=0.0) + MARGIN,
    )


def _columns(flow: FlowGraph) -> dict[Stage, int]:
    """Put each stage one to the right of the last that feeds it; what is in a cycle, anywhere."""
    columns: dict[Stage, int] = {}
    for stage in dict.fromkeys([*flow.in_order(), *flow.stages]):
        before = [columns[edge.upstream] for edge in stage.inputs if edge.upstream in columns]
        columns[stage] = max(before, default=-1) + 1
    return columns


def _bends(edge: Edge, boxes: dict[Stage, Box]) -> list[Box]:
    last, end = boxes[edge.upstream], boxes[edge.downstream]
    bends = []
    for column in range(last.column + 1, end.column):
        last = Box(None, column, upstream=[last])
        bends.append(last)
    end.upstream.append(last)
    return bends


def _stack(column: list[Box]) -> None:
    """Put boxes beside those that feed them, in their order, and below each other."""

    def wanted_y(box: Box) -> float:
        placed = [before.middle for before in box.upstream if before.column < box.column]
        return sum(placed) / len(placed) - box.height / 2 if placed else MARGIN

    free = MARGIN
    column.sort(key=wanted_y)
    for box in column:
        box.y = max(wanted_y(box), free)
        free = box.y + box.height + ROW_GAP


def _way(edge: Edge, boxes: dict[Stage, Box], bends: dict[Edge, list[Box]]) -> list[Point]:
    def next_of(other: Edge) -> Box:
        return (bends[other] or [boxes[other.downstream]])[0]

    def last_of(other: Edge) -> Box:
        return (bends[other] or [boxes[other.upstream]])[-1]

    start, end = boxes[edge.upstream], boxes[edge.downstream]
    leaving = sorted(edge.upstream.outputs, key=lambda other: next_of(other).middle)
    arriving = sorted(edge.downstream.inputs, key=lambda other: last_of(other).middle)
    way = [(start.x + start.width, _port(start, leaving, edge))]
    for bend in bends[edge]:
        way += [(bend.x, bend.middle), (bend.x + bend.width, bend.middle)]
    return [*way, (end.x, _port(end, arriving, edge))]


def _port(box: Box, edges: list[Edge], edge: Edge) -> float:
    """Where on its side of a box an edge begins or ends, as one of several."""
    step = min(14.0, BOX_HEIGHT * 0.7 / len(edges))
    return box.middle + (edges.index(edge) - (len(edges) - 1) / 2) * step
