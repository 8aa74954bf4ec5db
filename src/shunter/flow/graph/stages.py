"""The stages of a flow, the edges between them, and how a user attaches one to another. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from shunter.errors import FlowError
from shunter.flow.graph.routes import (
    BALANCED,
    LOCAL,
    TO_ALL,
    FieldKey,
    Key,
    Route,
    RouteKind,
    by_key,
)
from shunter.flow.graph.source_line import SourceLine, users_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shunter.flow.graph.aggregates import Aggregate
    from shunter.flow.graph.fields import Field
    from shunter.flow.graph.flow_graph import FlowGraph
    from shunter.flow.graph.times import Seconds
    from shunter.flow.graph.windows import Window


class StageKind(StrEnum):
    SOURCE = "source"
    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"
    STATEFUL = "stateful"
    AGGREGATE = "aggregate"
    FRAME = "frame"
    SINK = "sink"


class Outlet(ABC):
    """What a next stage can be attached to: a stage, a stage with a route, or several of them."""

    flow: FlowGraph

    def map(
        self, function: Callable[[Any], Any], *, name: str | None = None, workers: int | None = None
    ) -> Stage:
        """Add a stage that makes one event of each."""
        return self._followed_by(StageKind.MAP, function, name, workers)

    def filter(
        self, function: Callable[[Any], Any], *, name: str | None = None, workers: int | None = None
    ) -> Stage:
        """Add a stage that keeps the events of which the function says so."""
        return self._followed_by(StageKind.FILTER, function, name, workers)

    def flat_map(
        self,
        function: Callable[[Any], Iterable[Any]],
        *,
        name: str | None = None,
        workers: int | None = None,
    ) -> Stage:
        """Add a stage that makes any number of events of each; the function returns them."""
        return self._followed_by(StageKind.FLAT_MAP, function, name, workers)

    def stateful(
        self,
        factory: Callable[..., Any],
        *,
        any_order: bool = False,
        name: str | None = None,
        workers: int | None = None,
    ) -> Stage:
        """Add a stage with objects of a class: one per key behind `key_by`, else one per worker.

        `any_order` says that it makes the same of its events in whatever order they come.
        """
        stage = self._followed_by(StageKind.STATEFUL, factory, name, workers)
        stage.any_order = any_order
        return stage

    def aggregate(
        self,
        *,
        window: Window | None = None,
        name: str | None = None,
        workers: int | None = None,
        **aggregates: Aggregate,
    ) -> Stage:
        """Add a stage that tells, for each key, what aggregates such as `count=Count()` come to.

        It stands behind `key_by`. Results come at the end, and those of windows when they close.
        """
        from shunter.flow.graph.aggregates import Aggregation

        what = Aggregation(aggregates, window)
        return self._followed_by(StageKind.AGGREGATE, what, name, workers)

    def distinct(
        self,
        *,
        sender: Key,
        sequence: Field,
        order_by: Field | None = None,
        lateness: Seconds | None = None,
        any_order: bool = False,
        name: str | None = None,
        workers: int | None = None,
    ) -> Stage:
        """Add a stage that drops events whose `sequence` is not above the last of their sender.

        `order_by` and `lateness` are as for `key_by`, `any_order` as for `stateful`.
        """
        from shunter.flow.graph.distinct import Distinct

        by_sender = self.key_by(sender, order_by=order_by, lateness=lateness)
        return by_sender.stateful(
            Distinct(sequence), any_order=any_order, name=name, workers=workers
        )

    def frame(
        self,
        function: Callable[[DataFrame], DataFrame],
        *,
        schema: str | None = None,
        type: Any = None,  # noqa: A002
        name: str | None = None,
    ) -> Stage:
        """Add a stage that is a function of a DataFrame of Spark's; it runs on Spark alone.

        `schema` is of the rows that go in, where functions don't say by their annotations what
        they return. Rows that come out become dicts, or objects of `type`.
        """
        from shunter.flow.graph.frames import FrameFunction

        return self._followed_by(StageKind.FRAME, FrameFunction(function, schema, type), name, 1)

    def sink(self, sink: Any, *, name: str | None = None, workers: int | None = None) -> Stage:
        """Add a stage where events leave the flow: a sink, or a function called for each.

        A sink that says how many `files` it wants has as many workers; one with a `route_key` gets
        events by that key, unless another route is named.
        """
        if workers is None:
            workers = getattr(sink, "files", None)
        key = getattr(sink, "route_key", None)
        if key is not None and workers != 1 and all(end.route is None for end in self.ends()):
            return self._routed(by_key(key))._followed_by(StageKind.SINK, sink, name, workers)
        return self._followed_by(StageKind.SINK, sink, name, workers)

    def local(self) -> Routed:
        """Send events to workers on the same node, as happens if nothing is said."""
        return self._routed(LOCAL)

    def balanced(self) -> Routed:
        """Send each event to the worker with most room, on whatever node."""
        return self._routed(BALANCED)

    def key_by(
        self, key: Key, *, order_by: Field | None = None, lateness: Seconds | None = None
    ) -> Routed:
        """Send events of equal keys to the same worker.

        The key is a function of the event, the name of a field, or a position. With `order_by`, a
        field or a function, a class gets the events of its key by that time, whatever order they
        come in: they are held until the end, or until watermarks have passed them by `lateness`.
        """
        from shunter.flow.graph.event_order import event_order

        order = event_order(order_by, lateness)
        return self._routed(by_key(key, stage=self.ends()[0].stage.name, order=order))

    def to_all(self) -> Routed:
        """Send each event to all workers."""
        return self._routed(TO_ALL)

    @abstractmethod
    def ends(self) -> tuple[End, ...]:
        """Return the stages that feed what will be attached here."""

    def _followed_by(
        self, kind: StageKind, what: Any, name: str | None, workers: int | None
    ) -> Stage:
        return self.flow.add(kind, what, name=name, workers=workers, ends=self.ends())

    def _routed(self, route: Route) -> Routed:
        for end in self.ends():
            if end.route is not None:
                raise FlowError(
                    f"its events already go {end.route}, so they can't go {route}; keep one route",
                    stage=end.stage.name,
                    place=str(users_line()),
                )
        return Routed(self.flow, tuple(replace(end, route=route) for end in self.ends()))


@dataclass(eq=False)
class Stage(Outlet):
    """One step of a flow. `what` is the user's own function, class, source or sink.

    `workers` is None where nothing was said: one for each node, and one of a source. `where` is
    the user's line that made it. `any_order` is what the user says of a class: it needs no order
    among its events.
    """

    flow: FlowGraph = field(repr=False)
    name: str
    kind: StageKind
    what: Any = field(repr=False)
    workers: int | None
    where: SourceLine
    inputs: list[Edge] = field(default_factory=list, repr=False)
    outputs: list[Edge] = field(default_factory=list, repr=False)
    any_order: bool = False

    @property
    def keyed(self) -> bool:
        """Whether events come here by their keys."""
        return any(edge.route.kind is RouteKind.BY_KEY for edge in self.inputs)

    @property
    def is_ordered(self) -> bool:
        """True if events come here by the time that they name."""
        return any(edge.route.order is not None for edge in self.inputs)

    def late(self) -> Routed:
        """Return what the events come from that were too late for all windows, or their turn."""
        has_windows = self.kind is StageKind.AGGREGATE and self.what.window is not None
        if not has_windows and not any(edge.route.order for edge in self.inputs):
            raise FlowError(
                "no event is late here; late() is for what aggregate(window=Window(…)) returns, or "
                "stateful(…) behind key_by(…, order_by=…)",
                stage=self.name,
                place=str(users_line()),
            )
        return Routed(self.flow, (End(self, None, is_late=True),))

    def ends(self) -> tuple[End, ...]:
        return (End(self, None),)


@dataclass(frozen=True, slots=True)
class End:
    """A stage that will feed another; the route is None where the user has not named one."""

    stage: Stage
    route: Route | None
    is_late: bool = False


class Routed(Outlet):
    """One or several stages, most with a route, to which the next stage is to be attached."""

    def __init__(self, flow: FlowGraph, ends: tuple[End, ...]) -> None:
        self.flow = flow
        self._ends = ends

    def ends(self) -> tuple[End, ...]:
        return self._ends


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Events go from one stage to another. `number` is its place in the order of definition.

    By an edge that is late go only the events which were too late for the stage it comes from.
    """

    number: int
    upstream: Stage
    downstream: Stage
    route: Route
    where: SourceLine
    is_late: bool = False

    def __str__(self) -> str:
        return f"{self.upstream.name} → {self.downstream.name}"


def key_name(inputs: Iterable[Edge]) -> str:
    """Return what the key is called in results: as the field, where it is one."""
    names = {edge.route.key.name for edge in inputs if isinstance(edge.route.key, FieldKey)}
    are_fields = all(isinstance(edge.route.key, FieldKey) for edge in inputs)
    return names.pop() if are_fields and len(names) == 1 else "key"
