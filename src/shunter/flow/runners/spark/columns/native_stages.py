"""Which stages of a flow Spark can do by itself, in its own columns, and why not the others.

An aggregate can where the types of key, time and values are known, and where no instruction can
come to it. It has the same results as in Python, and else it runs there. A frame always is Spark's.
Pure: what is in files is told by whoever has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shunter.flow.graph.aggregates import (
    Aggregate,
    Aggregation,
    ApproxDistinct,
    Count,
    Max,
    Mean,
    Min,
    Sum,
)
from shunter.flow.graph.checks import POLICIES
from shunter.flow.graph.fields import Getter
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.reach import instructing_source
from shunter.flow.graph.routes import FieldKey
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.columns.column_types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    Shape,
    items_of,
    kind_of,
    returned,
    shape_of,
)
from shunter.flow.runners.spark.silence import is_silent

Shapes = Callable[[Stage], Shape | None]
"""Returns the columns of a source, where it is one of files or a DataFrame that has such."""

STATELESS = (StageKind.MAP, StageKind.FILTER, StageKind.FLAT_MAP)

KEYS = (LONG, STRING, BOOLEAN, BINARY)
NUMBERS = (LONG, DOUBLE)
VALUES: dict[type[Aggregate], tuple[str, ...]] = {
    Count: (),
    Sum: NUMBERS,
    Mean: NUMBERS,
    Min: (*NUMBERS, STRING, TIMESTAMP),
    Max: (*NUMBERS, STRING, TIMESTAMP),
    ApproxDistinct: (LONG, STRING),
}
"""The kinds of columns that an aggregate may be of."""


@dataclass(frozen=True)
class NativeColumn:
    """What goes into a native aggregate: a part of the event, and the kind of column it makes."""

    getter: Getter
    kind: str


@dataclass(frozen=True)
class Native:
    """A stage that is Spark's own. Where it is direct, it reads columns that are there already.

    `columns` are those that an aggregate needs: key, time where it has windows, values.
    """

    stage: Stage
    is_direct: bool
    columns: tuple[NativeColumn, ...] = ()


def natives(
    flow: FlowGraph, shapes: Shapes, *, has_tallies: bool = True
) -> dict[Stage, Native | str]:
    """Return, for each aggregate and frame, how Spark does it, or why it does not.

    `has_tallies` tells whether tasks that make columns can say how many events they have seen.
    """
    found: dict[Stage, Native | str] = {}
    for stage in flow.in_order():
        if stage.kind is StageKind.FRAME:
            found[stage] = Native(stage, _has_columns(stage, found, shapes))
        elif stage.kind is StageKind.AGGREGATE:
            try:
                found[stage] = decided = _aggregate(stage, found, shapes)
            except _NotNative as reason:
                found[stage] = str(reason)
            else:
                if not (has_tallies or decided.is_direct):
                    found[stage] = "Spark Connect has no accumulators, so nobody could count"
    return found


class _NotNative(Exception):
    """Why a stage can't be Spark's own."""


def _aggregate(stage: Stage, found: Mapping[Stage, Native | str], shapes: Shapes) -> Native:
    what: Aggregation = stage.what
    if len(stage.inputs) > 1:
        raise _NotNative("its events come from several stages")
    if stage.flow.on_error not in POLICIES:
        raise _NotNative("events that can't be processed go to a sink")
    if any(edge.is_late for edge in stage.outputs):
        raise _NotNative("its late events are asked for")
    if (talking := instructing_source(stage, is_silent)) is not None:
        raise _NotNative(f"{talking.name!r} may send instructions")
    before = stage.inputs[0].upstream
    key = stage.inputs[0].route.key
    assert key is not None
    key_getter = Getter(key.name if isinstance(key, FieldKey) else key)
    getters = [key_getter, *what.getters]
    is_direct = _has_columns(stage, found, shapes) and all(getter.name for getter in getters)
    if is_direct and before.kind is StageKind.FRAME:
        return Native(stage, True, tuple(NativeColumn(getter, "") for getter in getters))
    if not is_direct and len(before.outputs) > 1:
        raise _NotNative(f"{before.name!r} has several outputs")
    shape = shape_behind(before, found, shapes)
    columns = [_column(getter, shape) for getter in getters]
    _check_kinds(what, columns)
    return Native(stage, is_direct, tuple(columns))


def _has_columns(stage: Stage, found: Mapping[Stage, Native | str], shapes: Shapes) -> bool:
    """True if all that comes to a stage is columns already."""
    befores = [edge.upstream for edge in stage.inputs]
    return all(
        isinstance(found.get(before), Native)
        or (before.kind is StageKind.SOURCE and shapes(before) is not None)
        for before in befores
    )


def shape_behind(stage: Stage, found: Mapping[Stage, Native | str], shapes: Shapes) -> Shape | None:
    """Return the shape of the events that come out of a stage."""
    match stage.kind:
        case StageKind.SOURCE:
            return shapes(stage) or shape_of(getattr(stage.what, "event_type", None))
        case StageKind.MAP:
            return shape_of(returned(stage.what))
        case StageKind.FLAT_MAP:
            return shape_of(items_of(returned(stage.what)))
        case StageKind.FILTER:
            befores = [shape_behind(e.upstream, found, shapes) for e in stage.inputs]
            return befores[0] if all(each == befores[0] for each in befores) else None
        case StageKind.FRAME:
            return shape_of(stage.what.type)
        case StageKind.AGGREGATE:
            native = found[stage]
            return shape_of_results(native) if isinstance(native, Native) else None
    return None


def shape_of_results(native: Native) -> Shape | None:
    """Return the shape of what a native aggregate tells, where its own columns' kinds are known."""
    what: Aggregation = native.stage.what
    key, *columns = native.columns
    if not key.kind:
        return None
    kinds = [key.kind]
    if what.window is not None:
        time, *columns = columns
        kinds += [_time_kind(what, time)] * 2
    values = iter(columns)
    for aggregate in what.aggregates.values():
        own = LONG if aggregate.getter is None else next(values).kind
        kinds.append({Mean: DOUBLE, ApproxDistinct: LONG}.get(type(aggregate), own))
    names = what.names(key.getter.name or "key")
    return dict(zip(names, kinds, strict=True))


def _time_kind(what: Aggregation, time: NativeColumn) -> str:
    window = what.window
    assert window is not None
    if time.kind == LONG and not (isinstance(window.size, int) and isinstance(window.every, int)):
        return DOUBLE
    return time.kind


def _column(getter: Getter, shape: Shape | None) -> NativeColumn:
    if not getter.name:
        kind = kind_of(returned(getter.function))
        if kind is None:
            raise _NotNative(
                f"what {_name(getter.function)} returns is not known; annotate it as int, float, "
                "str, bool or bytes"
            )
        return NativeColumn(getter, kind)
    if shape is None or getter.name not in shape:
        raise _NotNative(
            f"the type of {getter.name!r} is not known; annotate what the function before returns "
            "as a dataclass or struct, or give the source a type"
        )
    return NativeColumn(getter, shape[getter.name])


def _check_kinds(what: Aggregation, columns: list[NativeColumn]) -> None:
    key, *rest = columns
    _check_kind(key, KEYS, "a key")
    if what.window is not None:
        time, *rest = rest
        _check_kind(time, (*NUMBERS, TIMESTAMP), "a time")
    values = iter(rest)
    for name, aggregate in what.aggregates.items():
        if type(aggregate) not in VALUES:
            raise _NotNative(f"{name} is an aggregate of the user's own")
        if aggregate.getter is not None:
            _check_kind(next(values), VALUES[type(aggregate)], type(aggregate).__name__)


def _check_kind(column: NativeColumn, allowed: tuple[str, ...], what: str) -> None:
    if column.kind not in allowed:
        name = column.getter.name or _name(column.getter.function)
        raise _NotNative(f"{name!r} is a {column.kind}, and {what} in Spark's columns is none")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
