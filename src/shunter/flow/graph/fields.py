"""A part of an event, as users name it: a field, or a function of the event. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shunter.flow.graph.routes import FieldKey

Field = str | Callable[[Any], Any]
"""How a user says which part of an event is meant."""


class Getter:
    """Gets one part of events. `name` is that of the field, and empty where it is a function."""

    def __init__(self, field: Field) -> None:
        self.function: Callable[[Any], Any] = FieldKey(field) if isinstance(field, str) else field
        self.name = field if isinstance(field, str) else ""

    def __call__(self, event: Any) -> Any:
        return self.function(event)

    def many(self, events: Sequence[Any]) -> list[Any]:
        """Return the part of each event; what a user's function raises is passed on."""
        many = getattr(self.function, "many", None)
        return list(map(self.function, events)) if many is None else many(events)

    def __repr__(self) -> str:
        return repr(self.name or self.function)


def is_field(field: Any) -> bool:
    """True if this names a part of an event."""
    return (isinstance(field, str) and bool(field)) or callable(field)
