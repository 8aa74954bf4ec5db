"""The stages of a flow, the edges between them, and how a user attaches one to another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.places import Place, users_place
from shunter.flow.routes import BALANCED, LOCAL, TO_ALL, Key, Route, RouteKind, by_key

if TYPE_CHECKING:
    from shunter.flow.graph import Flow


class Kind(StrEnum):
    SOURCE = "source"
    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"
    STATEFUL = "stateful"
    SINK = "sink"


class Outlet:
    """What a next stage can be attached to: a stage, a stage with a route, or several of them."""

    flow: Flow

    def map(
        self, function: Callable[[Any], Any], *, name: str | None = None, workers: int | None = None
    ) -> Stage:
        """Add a stage that makes one event of each."""
        return self._followed_by(Kind.MAP, function, name, workers)

    def filter(
        self, function: Callable[[Any], Any], *, name: str | None = None, workers: int | None = None
    ) -> Stage:
        """Add a stage that keeps the events of which the function says so."""
        return self._followed_by(Kind.FILTER, function, name, workers)

    def flat_map(
        self,
        function: Callable[[Any], Iterable[Any]],
        *,
        name: str | None = None,
        workers: int | None = None,
    ) -> Stage:
        """Add a stage that makes any number of events of each; the function returns them."""
        return self._followed_by(Kind.FLAT_MAP, function, name, workers)

    def stateful(
        self, factory: Callable[..., Any], *, name: str | None = None, workers: int | None = None
    ) -> Stage:
        """Add a stage with objects of a class: one per key behind `key_by`, else one per worker."""
        return self._followed_by(Kind.STATEFUL, factory, name, workers)

    def sink(self, sink: Any, *, name: str | None = None, workers: int | None = None) -> Stage:
        """Add a stage where events leave the flow: a sink, or a function called for each."""
        return self._followed_by(Kind.SINK, sink, name, workers)

    def local(self) -> Routed:
        """Send events to workers on the same node, as happens if nothing is said."""
        return self._routed(LOCAL)

    def balanced(self) -> Routed:
        """Send each event to the worker with most room, on whatever node."""
        return self._routed(BALANCED)

    def key_by(self, key: Key) -> Routed:
        """Send events of equal keys to the same worker.

        The key is a function of the event, the name of a field, or a position.
        """
        return self._routed(by_key(key, stage=self.ends()[0].stage.name))

    def to_all(self) -> Routed:
        """Send each event to all workers."""
        return self._routed(TO_ALL)

    def ends(self) -> tuple[End, ...]:
        """Return the stages that feed what will be attached here."""
        raise NotImplementedError

    def _followed_by(self, kind: Kind, what: Any, name: str | None, workers: int | None) -> Stage:
        return self.flow.add(kind, what, name=name, workers=workers, ends=self.ends())

    def _routed(self, route: Route) -> Routed:
        for end in self.ends():
            if end.route is not None:
                raise FlowError(
                    f"its events already go {end.route}, so they can't go {route}; keep one route",
                    stage=end.stage.name,
                    place=str(users_place()),
                )
        return Routed(self.flow, tuple(End(end.stage, route) for end in self.ends()))


@dataclass(eq=False)
class Stage(Outlet):
    """One step of a flow. `what` is the user's own function, class, source or sink.

    `workers` is None where it is one for each node; `where` is the user's line that made it.
    """

    flow: Flow = field(repr=False)
    name: str
    kind: Kind
    what: Any = field(repr=False)
    workers: int | None
    where: Place
    inputs: list[Edge] = field(default_factory=list, repr=False)
    outputs: list[Edge] = field(default_factory=list, repr=False)

    @property
    def keyed(self) -> bool:
        """Whether events come here by their keys."""
        return any(edge.route.kind is RouteKind.BY_KEY for edge in self.inputs)

    def ends(self) -> tuple[End, ...]:
        return (End(self, None),)


@dataclass(frozen=True, slots=True)
class End:
    """A stage that will feed another; the route is None where the user has not named one."""

    stage: Stage
    route: Route | None


class Routed(Outlet):
    """One or several stages, most with a route, to which the next stage is to be attached."""

    def __init__(self, flow: Flow, ends: tuple[End, ...]) -> None:
        self.flow = flow
        self._ends = ends

    def ends(self) -> tuple[End, ...]:
        return self._ends


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Events go from one stage to another. `number` is its place in the order of definition."""

    number: int
    upstream: Stage
    downstream: Stage
    route: Route
    where: Place

    def __str__(self) -> str:
        return f"{self.upstream.name} → {self.downstream.name}"
