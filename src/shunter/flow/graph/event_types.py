"""Which types of events may go from process to process, and what they are called there.

They are found where the user's functions are: dataclasses, structs, named tuples and enums that
the modules of the stages define or import. Only these are ever made of received bytes. A module
may be imported under several names, as a script or by its path, so the module that makes the flow
is always called `flow`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from shunter.errors import FlowError
from shunter.flow.graph.source_line import is_ours

if TYPE_CHECKING:
    from shunter.flow.graph.flow_graph import FlowGraph

OWN_MODULE = "flow"


def types_of(flow: FlowGraph) -> dict[str, type]:
    """Return the types by name, or raise a FlowError where two have the same."""
    found: dict[str, type] = {}
    for event_type in _candidates(flow):
        name = type_name(flow, event_type)
        if found.setdefault(name, event_type) is not event_type:
            raise FlowError(
                f"flow {flow.name!r}: two types of events are called {name}; rename one",
                place=str(flow.where),
            )
    return found


def type_name(flow: FlowGraph, event_type: type) -> str:
    """Return what a type is called in every process that has this flow."""
    module = event_type.__module__
    return f"{OWN_MODULE if module == flow.module else module}:{event_type.__qualname__}"


def users_modules(flow: FlowGraph) -> list[str]:
    """Name the modules that the flow and its functions are in, without Shunter's own."""
    used: list[Any] = [part for stage in flow.stages for part in _parts(stage.what)]
    used += [edge.route.key for edge in flow.edges if edge.route.key is not None]
    used += [edge.route.order.time.function for edge in flow.edges if edge.route.order is not None]
    names = [flow.module, *map(_module_of, used)]
    return [name for name in dict.fromkeys(names) if name in sys.modules and not is_ours(name)]


def _parts(what: Any) -> list[Any]:
    """Return what a stage is made of: itself, or the functions in one of our own objects."""
    parts: list[Any] = getattr(what, "functions", None) or [what]
    return parts


def _module_of(what: Any) -> str:
    while isinstance(what, functools.partial):
        what = what.func
    return str(getattr(what, "__module__", ""))


def _candidates(flow: FlowGraph) -> Iterator[type]:
    yield from flow.extra_types
    for module in users_modules(flow):
        for value in list(vars(sys.modules[module]).values()):
            if isinstance(value, type) and _is_event_type(value):
                yield value


def _is_event_type(found: type) -> bool:
    if issubclass(found, Struct):
        return found is not Struct
    if issubclass(found, Enum):
        return bool(found.__members__)
    return is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields"))
