"""How fast each stage of a run is, and how far behind: what people and programs are shown.

A run reports bare counts, again and again. Rates come from two reports that lie some seconds
apart; a stage lags behind by the events that those before it have given and it has not taken.
Pure: `now` is always an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.stages import StageKind
from shunter.flow.runtime.plan import dead_letters_stage, planned
from shunter.flow.runtime.report import SourceLag, StageReport

REPORTS = 10
"""So many reports back is where a rate begins."""


class StageProgress(Struct, frozen=True):
    """One stage: events in and out, how many of them a second, and those on the way to it.

    `lag` counts all events that it is still to take. Its inboxes have room for `capacity`, of
    which `waiting` is taken up. `last_error` says what one of the `failed` ones failed of.
    A source has `source_lag` instead, where somebody knows how far it is behind what it reads.
    """

    name: str
    kind: str
    taken: int
    given: int
    failed: int
    per_second: float
    lag: int
    waiting: int
    capacity: int
    last_error: str = ""
    source_lag: SourceLag | None = None


class EdgeProgress(Struct, frozen=True):
    """One edge: how events are routed along it, how many went, and how many do a second."""

    upstream: str
    downstream: str
    route: str
    passed: int
    per_second: float


class Pace:
    """Follows one run of a flow on so many nodes, which began at `now`."""

    def __init__(self, flow: FlowGraph, nodes: int, *, now: float) -> None:
        copies = {
            edge.number: len(edge.receivers) if edge.route.kind is RouteKind.TO_ALL else 1
            for worker in planned(flow, nodes).workers
            for edge in worker.outputs
        }
        self._feeds = {
            stage.name: [
                (edge.upstream.name, copies.get(edge.number, 1))
                for edge in stage.inputs
                if not edge.is_late
            ]
            for stage in flow.stages
        }
        self._edges = [
            (
                edge.upstream.name,
                edge.downstream.name,
                str(edge.route.kind),
                copies.get(edge.number, 1),
            )
            for edge in flow.edges
            if not edge.is_late
        ]
        letters = dead_letters_stage(flow)
        self._letters = None if letters is None else letters.name
        self._past: deque[tuple[float, dict[str, int]]] = deque([(now, {})], maxlen=REPORTS)
        self._given: deque[tuple[float, dict[str, int]]] = deque([(now, {})], maxlen=REPORTS)

    def of(self, reports: Sequence[StageReport], *, now: float) -> list[StageProgress]:
        """Return where all stages stand, given what they report."""
        moved = {stage.name: max(stage.taken, stage.given) for stage in reports}
        if any(count < self._past[-1][1].get(name, 0) for name, count in moved.items()):
            self._past = deque([(now, moved)], maxlen=REPORTS)  # it began anew
        since, before = self._past[0]
        self._past.append((now, moved))
        return [
            StageProgress(
                stage.name,
                stage.kind,
                taken=stage.taken,
                given=stage.given,
                failed=stage.failed,
                per_second=_rate(moved[stage.name] - before.get(stage.name, 0), now - since),
                lag=self._lag(stage, reports),
                waiting=stage.waiting,
                capacity=stage.capacity,
                last_error=stage.last_error,
                source_lag=stage.source_lag,
            )
            for stage in reports
        ]

    def edges(self, reports: Sequence[StageReport], *, now: float) -> list[EdgeProgress]:
        """Return how much goes along each edge, given what its stages report."""
        given = {stage.name: stage.given for stage in reports}
        if any(count < self._given[-1][1].get(name, 0) for name, count in given.items()):
            self._given = deque([(now, given)], maxlen=REPORTS)  # it began anew
        since, before = self._given[0]
        self._given.append((now, given))
        return [
            EdgeProgress(
                upstream,
                downstream,
                route,
                passed=given.get(upstream, 0) * copies,
                per_second=_rate(
                    (given.get(upstream, 0) - before.get(upstream, 0)) * copies, now - since
                ),
            )
            for upstream, downstream, route, copies in self._edges
        ]

    def _lag(self, stage: StageReport, reports: Sequence[StageReport]) -> int:
        if stage.name == self._letters:
            due = sum(each.failed for each in reports)
        else:
            given = {each.name: each.given for each in reports}
            due = sum(given[name] * copies for name, copies in self._feeds[stage.name])
        return max(0, due - stage.taken)


def events_read(stages: Sequence[StageProgress]) -> int:
    """How many events the sources have given: how far a run has come."""
    return sum(stage.given for stage in stages if stage.kind == StageKind.SOURCE)


def _rate(events: int, seconds: float) -> float:
    return round(events / seconds, 1) if seconds > 0 else 0.0
