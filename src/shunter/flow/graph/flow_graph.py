"""What a user writes: a flow of sources, stages and sinks, joined by routes.

    flow = Flow("temperatures")
    readings = flow.source(json_lines("readings.jsonl"), name="readings")
    changes = readings.map(parse).key_by("machine").stateful(Watch)
    changes.sink(json_lines_file("changes.jsonl"))

It only describes; `plan.py` decides what runs where, and runners do it. What is wrong by itself
is refused at once, and what only the whole can show by `Flow.check`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shunter.errors import FlowError
from shunter.flow.graph import checks
from shunter.flow.graph.event_types import types_of
from shunter.flow.graph.fingerprint import fingerprint_of
from shunter.flow.graph.routes import LOCAL
from shunter.flow.graph.source_line import users_line, users_module
from shunter.flow.graph.stage_names import default_name, flow_name
from shunter.flow.graph.stages import Edge, End, Outlet, Routed, Stage, StageKind


class FlowGraph:
    """A graph of stages that events pass through.

    `on_error` says what becomes of an event on which a function raised: "stop" ends the run,
    "skip" counts it, and a sink gets it with the traceback. `instructions` are the names of the
    user's own processing instructions. `types` are types of events that can't be found by
    themselves, in the modules of the functions.
    `file` is what the loader loaded it from, `code` names and digests of the user's files, and
    `origin` the module that it is in, with its name there, which may be left out.
    """

    def __init__(
        self,
        name: str,
        *,
        on_error: Any = "stop",
        instructions: Iterable[str] = (),
        types: Iterable[type] = (),
    ) -> None:
        self.where = users_line()
        self.module = users_module()
        self.name = flow_name(name, self.where)
        self.on_error = on_error
        self.instructions = (instructions,) if isinstance(instructions, str) else (*instructions,)
        self.extra_types = tuple(types)
        self.stages: list[Stage] = []
        self.edges: list[Edge] = []
        self.file: str | None = None
        self.code: tuple[tuple[str, str], ...] = ()
        self.origin: tuple[str, str] = (self.module, "")
        checks.check_options(self)

    def source(self, source: Any, *, name: str | None = None, workers: int | None = None) -> Stage:
        """Add a source: an iterable, a function that returns one, or one of ours.

        Told no number of workers, its events keep their order: one worker reads it, and on Spark
        as many tasks as its files have splits, whose order is restored.
        """
        return self.add(StageKind.SOURCE, source, name=name, workers=workers)

    def merge(self, *outlets: Outlet) -> Routed:
        """Take stages together, so that the next one attached gets the events of all of them."""
        if not outlets:
            raise FlowError("merge() got no stages; pass some", place=str(users_line()))
        for outlet in outlets:
            checks.check_upstream(self, outlet)
        return Routed(self, tuple(end for outlet in outlets for end in outlet.ends()))

    def connect(self, upstream: Outlet, downstream: Stage) -> None:
        """Let a stage that is already there have one more input."""
        checks.check_upstream(self, upstream)
        checks.check_downstream(self, downstream)
        self._join(upstream.ends(), downstream)

    def add(
        self,
        kind: StageKind,
        what: Any,
        *,
        name: str | None = None,
        workers: int | None = None,
        ends: tuple[End, ...] = (),
    ) -> Stage:
        """Add a stage of any kind behind others; users call `map`, `sink` and so on."""
        taken = {stage.name for stage in self.stages}
        if name is None:
            name = default_name(kind, what, len(self.stages) + 1, taken)
        stage = Stage(self, name, kind, what, workers, users_line())
        checks.check_stage(stage)
        checks.check_ends(self, ends)
        checks.check_keys(stage, ends)
        self.stages.append(stage)
        self._join(ends, stage)
        return stage

    def stage(self, name: str) -> Stage:
        """Return the stage with this name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = ", ".join(stage.name for stage in self.stages) or "none at all"
        raise FlowError(f"flow {self.name!r} has no stage {name!r}; it has: {known}")

    def check(self) -> None:
        """Raise a FlowError for the first thing that keeps this flow from running."""
        checks.check_graph(self)

    def in_order(self) -> list[Stage]:
        """Return all stages, each behind those that feed it; the flow must be free of cycles."""
        return checks.sorted_stages(self)

    @property
    def types(self) -> dict[str, type]:
        """The types of events that may go from process to process, by their names on the wire."""
        return types_of(self)

    def fingerprint(self) -> str:
        """Return a digest that is the same wherever this very flow was loaded."""
        return fingerprint_of(self)

    def __repr__(self) -> str:
        return f"<flow {self.name!r}: {len(self.stages)} stages>"

    def _join(self, ends: Iterable[End], downstream: Stage) -> None:
        for end in ends:
            number, route = len(self.edges), end.route or LOCAL
            edge = Edge(number, end.stage, downstream, route, users_line(), end.is_late)
            self.edges.append(edge)
            end.stage.outputs.append(edge)
            downstream.inputs.append(edge)
