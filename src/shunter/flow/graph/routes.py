"""How events go from the workers of one stage to the workers of the next.

A route says which of them may get an event: those on the same node, the one with most room, the
one that its key belongs to, or all. Which index a key has is decided in `keys.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.source_line import users_line

if TYPE_CHECKING:
    from shunter.flow.graph.event_order import EventOrder

KeyFunction = Callable[[Any], Any]
Key = KeyFunction | str | int
"""How a user says what the key of an event is: a function, the name of a field, or a position."""


class RouteKind(StrEnum):
    LOCAL = "local"
    BALANCED = "balanced"
    BY_KEY = "by key"
    TO_ALL = "to all"


@dataclass(frozen=True, slots=True)
class Route:
    """`key` is a function of the event, for routes by key; `label` says how the user wrote it.

    `order` is that in which a class gets the events of its key, where the user has named one.
    """

    kind: RouteKind
    key: KeyFunction | None = None
    label: str = ""
    order: EventOrder | None = None

    def keys_of(self, events: Sequence[Any]) -> list[Any]:
        """Return the key of each event; what the user's function raises is passed on."""
        assert self.key is not None
        many = getattr(self.key, "many", None)
        return list(map(self.key, events)) if many is None else many(events)

    def __str__(self) -> str:
        named = f"{self.kind} {self.label}" if self.label else str(self.kind)
        return named if self.order is None else f"{named} ordered by {self.order}"


LOCAL = Route(RouteKind.LOCAL)
BALANCED = Route(RouteKind.BALANCED)
TO_ALL = Route(RouteKind.TO_ALL)


def by_key(key: Key, *, stage: str = "", order: EventOrder | None = None) -> Route:
    """Make a route by key out of a stage, or raise a FlowError that says what a key may be."""
    match key:
        case str() if key:
            return Route(RouteKind.BY_KEY, FieldKey(key), key, order)
        case int() if not isinstance(key, bool):
            return Route(RouteKind.BY_KEY, itemgetter(key), f"[{key}]", order)
        case _ if callable(key):
            return Route(RouteKind.BY_KEY, key, _label(key), order)
    raise FlowError(
        f"key_by({key!r}) has no key; pass a function of the event, the name of a field, "
        "or a position",
        stage=stage,
        place=str(users_line()),
    )


class FieldKey:
    """The key of an event by the name of a field: an entry of a mapping, else an attribute."""

    __slots__ = ("_attribute", "_entry", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._entry: KeyFunction = itemgetter(name)
        self._attribute: KeyFunction = attrgetter(name)

    def __call__(self, event: Any) -> Any:
        return self._getter(event)(event)

    def many(self, events: Sequence[Any]) -> list[Any]:
        """Return the keys of events, which are most likely all of one type."""
        if not events:
            return []
        try:
            return list(map(self._getter(events[0]), events))
        except (AttributeError, LookupError, TypeError):
            return list(map(self, events))

    def _getter(self, event: Any) -> KeyFunction:
        is_mapping = type(event) is dict or isinstance(event, Mapping)
        return self._entry if is_mapping else self._attribute


def _label(key: KeyFunction) -> str:
    name = getattr(key, "__name__", None) or type(key).__name__
    return "a function" if name == "<lambda>" else str(name)
