"""What users pass where a sink is wanted."""

from __future__ import annotations

from typing import Any, cast

from shunter.errors import FlowError
from shunter.flow.sinks.calls import Each
from shunter.flow.sinks.in_memory import Collect
from shunter.flow.sinks.port import Sink

_METHODS = ("open", "write", "checkpoint", "close")


def as_sink(what: Any) -> Sink:
    """Return a sink as it is; have a list collect, and a function called with each event."""
    if isinstance(what, list):
        return Collect(what)
    missing = [name for name in _METHODS if not callable(getattr(what, name, None))]
    if not missing and not isinstance(what, type):
        return cast(Sink, what)
    if callable(what):
        return Each(what)
    raise FlowError(
        f"{what!r} is no sink, for it has no {missing[0]}(); pass one of shunter.flow.sinks, a "
        "function of one event, or a list"
    )
