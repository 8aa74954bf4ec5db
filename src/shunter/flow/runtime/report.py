"""What a run has done, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.runtime.inbox import Inbox
from shunter.flow.runtime.plan import dead_letters_stage
from shunter.flow.runtime.stage_worker import StageWorker


class SourceLag(Struct, frozen=True):
    """How far a source is behind what it reads; `count` is None where the source does not tell."""

    count: int | None = None
    unit: str = ""

    def __str__(self) -> str:
        return "not told by this source" if self.count is None else f"{self.count:,} {self.unit}"


@dataclass(frozen=True, slots=True)
class StageReport:
    """Events that went into a stage and came out, failed ones, and those that wait before it.

    `last_error` says what one of the failed ones failed of, where that is known. `source_lag` is
    what Spark says of a source of its own.
    """

    name: str
    kind: str
    taken: int
    given: int
    failed: int
    waiting: int
    capacity: int
    last_error: str = ""
    source_lag: SourceLag | None = None


class LiveReport:
    """Counts that are read from the workers whenever somebody asks."""

    def __init__(self, flow: FlowGraph, workers: Iterable[StageWorker]) -> None:
        self._flow, self._workers = flow, list(workers)

    @property
    def stages(self) -> list[StageReport]:
        letters = dead_letters_stage(self._flow)
        stages = [*self._flow.in_order(), *([letters] if letters else [])]
        return [self._of(stage.name, stage.kind) for stage in stages]

    def __getitem__(self, name: str) -> StageReport:
        return next(stage for stage in self.stages if stage.name == name)

    def _of(self, name: str, kind: str) -> StageReport:
        mine = [worker for worker in self._workers if name in worker.tallies]
        heads = [w.inbox for w in mine if w.is_head(name) and isinstance(w.inbox, Inbox)]
        return StageReport(
            name,
            str(kind),
            taken=sum(worker.tallies[name].taken for worker in mine),
            given=sum(worker.tallies[name].given for worker in mine),
            failed=sum(worker.failed(name) for worker in self._workers),
            waiting=sum(inbox.occupied for inbox in heads),
            capacity=sum(inbox.capacity for inbox in heads),
            last_error=next(filter(None, (it.last_error(name) for it in self._workers)), ""),
        )
