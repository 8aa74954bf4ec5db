"""What stages are called: as the user says, else as their function is called. Pure."""

from __future__ import annotations

from collections.abc import Set
from itertools import count
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph.source_line import SourceLine
from shunter.flow.graph.stages import StageKind
from shunter.model.identity import NAME_RULE, is_name


def flow_name(name: Any, where: SourceLine) -> str:
    """Return the name of a flow, or raise a FlowError."""
    if isinstance(name, str) and is_name(name):
        return name
    raise FlowError(f"{name!r} can't name a flow; a name is {NAME_RULE}", place=str(where))


def default_name(kind: StageKind, what: Any, position: int, taken: Set[str]) -> str:
    """Return the name of the function, or else the kind and position; made unique by a number."""
    name = getattr(what, "__name__", None)
    if not isinstance(name, str) or not is_name(name):
        name = f"{kind}-{position}"
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(name for name in names if name not in taken)
