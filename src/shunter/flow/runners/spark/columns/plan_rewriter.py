"""The graph of a flow, cut where Spark has columns of its own: what is left is for chains.

A stage that is Spark's own becomes two: a sink for what comes to it from chains, and a source for
the chains behind it. Where columns go straight from one such stage to the next, there is nothing
between them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import LOCAL, RouteKind
from shunter.flow.graph.stages import Edge, Stage, StageKind
from shunter.flow.runners.spark.columns.native_stages import STATELESS, Native

Joint = tuple[Edge, Stage, Stage]
"""An edge, and what it joins instead of what it did."""


@dataclass(frozen=True)
class CutFlow:
    """`into` and `out` are, for a stage of Spark's own, its sink and source, where it has them."""

    flow: FlowGraph
    into: Mapping[Stage, Stage]
    out: Mapping[Stage, Stage]


def rebuilt(flow: FlowGraph, joints: Iterable[Joint]) -> FlowGraph:
    """Return a flow of these stages, which belong to it alone, joined anew."""
    made, edges = copy(flow), []
    stages: dict[Stage, None] = {}
    for edge, up, down in joints:
        stages |= {up: None, down: None}
        again = replace(edge, upstream=up, downstream=down)
        edges.append(again)
        up.outputs.append(again)
        down.inputs.append(again)
    for stage in stages:
        stage.flow = made
    made.stages, made.edges = list(stages), edges
    return made


def loose(stage: Stage, **changes: Any) -> Stage:
    """Return a stage that is joined to nothing yet."""
    return replace(stage, inputs=[], outputs=[], **changes)


def cut(
    flow: FlowGraph,
    natives: Mapping[Stage, Native],
    *,
    into: Callable[[Native], Any],
    out: Callable[[Stage], Any],
    read: Callable[[Stage], Any | None],
    gone: Collection[Stage],
) -> CutFlow:
    """Cut a flow at the stages that are Spark's own, and leave out the sinks that are `gone`.

    `into`, `out` and `read` return what stages are then: of the sink before a stage, of the source
    behind it, and of a source that Spark can read in any order; None is for other sources.
    """
    free = _unordered(natives, read)
    sinks = {
        s: loose(s, kind=StageKind.SINK, what=into(n), workers=None) for s, n in natives.items()
    }
    sources = {
        stage: loose(
            stage, kind=StageKind.SOURCE, name=f"{stage.name}/out", what=out(stage), workers=1
        )
        for stage in natives
    }
    others = {
        stage: loose(stage, **free.get(stage, {})) for stage in flow.stages if stage not in natives
    }
    joints: list[Joint] = []
    for edge in flow.edges:
        up, down = edge.upstream, edge.downstream
        if down in gone or (down in natives and natives[down].is_direct):
            continue
        route = LOCAL if down in natives or down in free else edge.route
        joints.append((replace(edge, route=route), (sources | others)[up], (sinks | others)[down]))
    left = {stage for _, up, down in joints for stage in (up, down)}
    return CutFlow(
        rebuilt(flow, joints),
        {stage: sink for stage, sink in sinks.items() if sink in left},
        {stage: source for stage, source in sources.items() if source in left},
    )


def _unordered(
    natives: Mapping[Stage, Native], read: Callable[[Stage], Any | None]
) -> dict[Stage, dict[str, Any]]:
    """Find the stages without state whose events go to a stage of Spark's own and nowhere else.

    Their order does not matter, so that each task of Spark's may have any share of them. Returned
    is what changes in each.
    """
    found: dict[Stage, dict[str, Any]] = {}
    for native in natives.values():
        path: list[Stage] = []
        edges = [] if native.is_direct else native.stage.inputs
        while len(edges) == 1 and _is_alone(edges[0]):
            path.append(edges[0].upstream)
            edges = path[-1].inputs
        if path and path[-1].kind is StageKind.SOURCE and (what := read(path[-1])) is not None:
            found |= {stage: {"workers": None} for stage in path}
            found[path[-1]] = {"what": what, "workers": 1}
    return found


def _is_alone(edge: Edge) -> bool:
    stage = edge.upstream
    return (
        edge.route.kind is not RouteKind.TO_ALL
        and len(stage.outputs) == 1
        and stage.kind in (*STATELESS, StageKind.SOURCE)
    )
