"""What users pass where a source is wanted."""

from __future__ import annotations

from typing import Any, cast

from shunter.errors import FlowError
from shunter.flow.sources.items import Items
from shunter.flow.sources.port import Source

_METHODS = ("open", "read", "position", "close")


def as_source(what: Any) -> Source:
    """Return a source as it is, and make one of an iterable or a function that returns one."""
    if isinstance(what, str | bytes):
        raise FlowError(f"{what!r} is a text; for a file of that name pass JsonLines({what!r})")
    missing = [name for name in _METHODS if not callable(getattr(what, name, None))]
    if not missing and not isinstance(what, type):
        return cast(Source, what)
    if callable(getattr(what, "read", None)) and not hasattr(what, "__iter__"):
        raise FlowError(f"{what!r} has read(), but no {missing[0]}(); a source has all four")
    return Items(what)
