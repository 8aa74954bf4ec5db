"""What is wrong with a flow, in the user's words: the stage, the user's line, and the remedy.

Some faults are seen when a stage is attached, and refused there and then. Others only the whole
graph shows; `check_graph` raises for the first of them. Pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.aggregates import Aggregate, Aggregation
from shunter.flow.graph.instructions import BUILT_IN
from shunter.flow.graph.open_order import check_order
from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.source_line import users_line
from shunter.flow.graph.stages import Edge, End, Outlet, Stage, StageKind, key_name
from shunter.flow.graph.windows import Window
from shunter.model.identity import NAME_RULE, is_name

if TYPE_CHECKING:
    from shunter.flow.graph.flow_graph import FlowGraph

POLICIES = ("stop", "skip")


# ---- what is refused at once


def check_options(flow: FlowGraph) -> None:
    """Raise where the flow's own options are wrong."""
    if flow.on_error not in POLICIES and (
        isinstance(flow.on_error, str) or _sink_fault(flow.on_error)
    ):
        raise FlowError(
            f"flow {flow.name!r}: on_error is {flow.on_error!r}; say 'stop', 'skip', or pass a "
            "sink for events that could not be processed",
            place=str(flow.where),
        )
    for name in flow.instructions:
        if not isinstance(name, str) or not is_name(name) or name in BUILT_IN:
            raise FlowError(
                f"flow {flow.name!r}: {name!r} can't name an instruction; a name is {NAME_RULE}, "
                f"and none of {', '.join(sorted(BUILT_IN))}",
                place=str(flow.where),
            )
    for found in flow.extra_types:
        if not isinstance(found, type):
            raise FlowError(
                f"flow {flow.name!r}: types has {found!r}; pass classes of events",
                place=str(flow.where),
            )


def check_stage(stage: Stage) -> None:
    """Raise where a stage that is about to be added is wrong by itself."""
    if not isinstance(stage.name, str) or not is_name(stage.name):
        raise _fault(stage, f"{stage.name!r} can't name a stage; a name is {NAME_RULE}")
    for other in stage.flow.stages:
        if other.name == stage.name:
            raise _fault(
                stage, f"another stage has this name, from {other.where}; give one another name=…"
            )
    if not _is_count(stage.workers) and stage.workers is not None:
        raise _fault(stage, f"workers is {stage.workers!r}; ask for 1 or more")
    if fault := _what_fault(stage):
        raise _fault(stage, fault)


def check_upstream(flow: FlowGraph, outlet: Any) -> None:
    """Raise where this can't feed a stage of the flow."""
    if not isinstance(outlet, Outlet):
        raise _no_stage(flow, outlet)
    check_ends(flow, outlet.ends())


def check_ends(flow: FlowGraph, ends: Iterable[End]) -> None:
    """Raise where one of these stages can't have an output within the flow."""
    for end in ends:
        _check_owner(flow, end.stage)
        if end.stage.kind is StageKind.SINK:
            raise _misplaced(
                end.stage,
                f"it is a sink, from {end.stage.where}, and nothing comes out of one; attach the "
                "next stage to what feeds the sink",
            )


def check_keys(stage: Stage, ends: Iterable[End | Edge]) -> None:
    """Raise where a stage that aggregates would get events by another way than by key."""
    for end in ends:
        if stage.kind is StageKind.AGGREGATE and (
            end.route is None or end.route.kind is not RouteKind.BY_KEY
        ):
            raise _fault(
                stage, "it aggregates by key, and events don't come by key; put key_by(…) before "
                "aggregate(…)"
            )  # fmt: skip


def check_downstream(flow: FlowGraph, stage: Any) -> None:
    """Raise where this can't have an input within the flow."""
    if not isinstance(stage, Stage):
        raise _no_stage(flow, stage)
    _check_owner(flow, stage)
    if stage.kind is StageKind.SOURCE:
        raise _misplaced(
            stage,
            f"it is a source, from {stage.where}, and nothing goes into one; connect to a stage "
            "behind it",
        )


def _check_owner(flow: FlowGraph, stage: Stage) -> None:
    if stage.flow is not flow:
        raise _misplaced(
            stage,
            f"it belongs to flow {stage.flow.name!r}, not to {flow.name!r}; attach only stages of "
            "one flow",
        )


def _no_stage(flow: FlowGraph, found: Any) -> FlowError:
    return FlowError(
        f"flow {flow.name!r}: {found!r} is no stage; pass what source(), map() and so on returned",
        place=str(users_line()),
    )


def _misplaced(stage: Stage, reason: str) -> FlowError:
    """The stage is not at fault, but the line that uses it."""
    return FlowError(reason, stage=stage.name, place=str(users_line()))


def _what_fault(stage: Stage) -> str | None:
    match stage.kind:
        case StageKind.SOURCE:
            return _source_fault(stage)
        case StageKind.SINK:
            return _sink_fault(stage.what)
        case StageKind.STATEFUL:
            return _state_fault(stage.what)
        case StageKind.AGGREGATE:
            return _aggregation_fault(stage.what)
        case StageKind.FRAME:
            return _frame_fault(stage.what.function)
        case _:
            return _function_fault(stage)


def _function_fault(stage: Stage) -> str | None:
    if not callable(stage.what):
        return f"{stage.what!r} can't be called; pass a function of one event"
    if _is_async(stage.what):
        return f"{stage.what!r} is async; pass a plain function"
    if stage.kind is not StageKind.FLAT_MAP and inspect.isgeneratorfunction(stage.what):
        return f"{stage.what!r} is a generator; {stage.kind} wants a result, use flat_map"
    return None


def _state_fault(what: Any) -> str | None:
    if not callable(what):
        return f"{what!r} can't be called; pass a class with on_event, or a function that makes one"
    if isinstance(what, type) and not callable(getattr(what, "on_event", None)):
        return f"{what.__qualname__} has no method on_event(event); give it one"
    return None


def _aggregation_fault(what: Aggregation) -> str | None:
    if not what.aggregates:
        return "there is nothing to compute; name something, such as aggregate(count=Count())"
    for name, aggregate in what.aggregates.items():
        if not isinstance(aggregate, Aggregate):
            return f"{name} is {aggregate!r}; pass an aggregate, such as Sum('value')"
    if what.window is not None and not isinstance(what.window, Window):
        return f"window is {what.window!r}; pass a window, such as Window(60, time='at')"
    return None


def _frame_fault(function: Any) -> str | None:
    if callable(function) and not _is_async(function):
        return None
    return f"{function!r} is no function; pass one of a DataFrame, which returns a DataFrame"


def _source_fault(stage: Stage) -> str | None:
    what = stage.what
    is_usable = callable(what) or hasattr(what, "read") or hasattr(what, "__iter__")
    if not is_usable or isinstance(what, str | bytes) or _is_async(what):
        return f"{what!r} is no source; pass an iterable, a function that returns one, or a source"
    if stage.workers not in (None, 1) and not callable(getattr(what, "part", None)):
        return (
            f"{stage.workers} workers, but this source can't be split; ask for 1, or give it a "
            "method part(index, count)"
        )
    return None


def _sink_fault(what: Any) -> str | None:
    if isinstance(what, type):
        return f"{what.__qualname__} is a class; pass one of its objects"
    if not (callable(what) or callable(getattr(what, "write", None))) or _is_async(what):
        return f"{what!r} is no sink; pass a function of one event, or an object with write(events)"
    return None


def _is_async(what: Any) -> bool:
    return inspect.iscoroutinefunction(what) or inspect.isasyncgenfunction(what)


def _is_count(workers: Any) -> bool:
    return isinstance(workers, int) and not isinstance(workers, bool) and workers >= 1


# ---- what only the whole graph shows


def check_graph(flow: FlowGraph) -> None:
    """Raise a FlowError for the first thing that keeps a flow from running."""
    if not any(stage.kind is StageKind.SOURCE for stage in flow.stages):
        raise FlowError(
            f"flow {flow.name!r} has no source; begin with flow.source(…)", place=str(flow.where)
        )
    if edges := _cycle(flow):
        names = " → ".join([edges[0].upstream.name, *(edge.downstream.name for edge in edges)])
        closing = max(edges, key=lambda edge: edge.number)
        raise FlowError(
            f"its events come back to it: {names}; take out one of these connections",
            stage=closing.downstream.name,
            place=str(closing.where),
        )
    for stage in flow.stages:
        if stage.kind is not StageKind.SINK and all(edge.is_late for edge in stage.outputs):
            raise _fault(stage, "nothing takes what comes out of it; attach a sink, or remove it")
        if stage.kind is StageKind.STATEFUL:
            _check_all_keyed(stage)
        if stage.kind is StageKind.AGGREGATE:
            check_keys(stage, stage.inputs)
            _check_names(stage)
    check_order(flow, sorted_stages(flow))


def _check_names(stage: Stage) -> None:
    names = stage.what.names(key_name(stage.inputs))
    for name in names:
        if names.count(name) > 1:
            raise _fault(
                stage, f"its results have {name!r} twice, of which one is the key or the window's "
                "time; call the aggregate something else"
            )  # fmt: skip


def _check_all_keyed(stage: Stage) -> None:
    plain = [edge for edge in stage.inputs if edge.route.kind is not RouteKind.BY_KEY]
    if plain and stage.keyed:
        raise _fault(
            stage,
            f"some events come by key, and those from {plain[0].upstream.name!r} "
            f"{plain[0].route}; let all come by key, or none",
        )


def check_no_frames(flow: FlowGraph) -> None:
    """Raise where a flow that is to run without Spark has a stage that needs it."""
    for stage in flow.stages:
        if stage.kind is StageKind.FRAME:
            raise FlowError(
                "it is a function of a DataFrame, which only Spark can run; run the flow with "
                "--on spark, or let it be a map",
                stage=stage.name,
                place=str(stage.where),
            )


def sorted_stages(flow: FlowGraph) -> list[Stage]:
    """Return all stages that no cycle leads to, each behind those that feed it."""
    missing = {stage: len(stage.inputs) for stage in flow.stages}
    ready = [stage for stage in flow.stages if not stage.inputs]
    for stage in ready:
        for edge in stage.outputs:
            missing[edge.downstream] -= 1
            if not missing[edge.downstream]:
                ready.append(edge.downstream)
    return ready


def _cycle(flow: FlowGraph) -> list[Edge]:
    """Return the edges of one cycle in their order, or none."""
    rest = set(flow.stages) - set(sorted_stages(flow))
    stage = next((stage for stage in flow.stages if stage in rest), None)
    path: list[Edge] = []
    seen: dict[Stage, int] = {}
    while stage is not None and stage not in seen:
        seen[stage] = len(path)
        edge = next(edge for edge in stage.inputs if edge.upstream in rest)
        path.append(edge)
        stage = edge.upstream
    return path[seen[stage] :][::-1] if stage is not None else []


def _fault(stage: Stage, reason: str) -> FlowError:
    return FlowError(reason, stage=stage.name, place=str(stage.where))
