"""How the plan of a flow is cut for Spark: chains of stages, one task for each worker of a chain.

Sinks that are fed where the run was started stand alone; those that tasks write may end a chain. A
source that is a DataFrame has as many tasks as Spark gives it, so that behind it only stages
without state are fused. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import LOCAL
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runtime.plan import DEAD_LETTERS, EdgePlan, WorkerPlan, planned


@dataclass(frozen=True)
class Chain:
    """Workers that do the same stages, of which each has a share of the events."""

    workers: tuple[WorkerPlan, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.workers[0].stages

    @property
    def count(self) -> int:
        """How many workers there are, with those in between that nothing reaches."""
        return self.workers[0].count

    @property
    def is_source(self) -> bool:
        return self.workers[0].is_source

    @property
    def is_sink(self) -> bool:
        return self.stages[0].kind is StageKind.SINK

    @property
    def sink(self) -> Stage | None:
        """The sink that it ends in, if it does."""
        return self.stages[-1] if self.stages[-1].kind is StageKind.SINK else None

    @property
    def edges(self) -> frozenset[int]:
        """The numbers of the edges that lead out of it."""
        return frozenset(edge.number for worker in self.workers for edge in worker.outputs)

    def takes_from(self, sender: Chain) -> frozenset[int]:
        """Return the edges that lead here from another chain."""
        receivers = {worker.id for worker in self.workers}
        return frozenset(
            edge.number
            for worker in sender.workers
            for edge in worker.outputs
            if not receivers.isdisjoint(edge.receivers)
        )

    def is_straight_behind(self, sender: Chain) -> bool:
        """True if each worker gets all its events from the one of the same index there."""
        between = self.takes_from(sender)
        return len(between) == 1 and all(
            {index_of(receiver) for receiver in edge.receivers} == {worker.index}
            for worker in sender.workers
            for edge in worker.outputs
            if edge.number in between
        )


def chains_of(
    flow: FlowGraph,
    nodes: int,
    *,
    is_parallel: Callable[[Stage], bool] = lambda _: False,
    is_written_by_tasks: Callable[[Stage], bool] = lambda _: False,
) -> list[Chain]:
    """Return the chains of a flow on so many nodes, each behind those that send to it.

    `is_parallel` tells of a source that it has any number of tasks, `is_written_by_tasks` of a sink
    that it need not stand alone.
    """

    def is_apart(stage: Stage, source: Stage) -> bool:
        """True if a chain is cut before this stage."""
        is_many = is_parallel(source)
        if stage.kind is StageKind.SINK:
            return not is_written_by_tasks(stage) or (is_many and stage.workers is not None)
        return is_many and stage.kind in (StageKind.STATEFUL, StageKind.AGGREGATE)

    with pinned(flow, {stage.name: 1 for stage in flow.stages if is_one_file(stage)}):
        workers = list(reversed(planned(flow, nodes).workers))
        return _grouped(workers, is_apart)


def _grouped(
    workers: Sequence[WorkerPlan], is_apart: Callable[[Stage, Stage], bool]
) -> list[Chain]:
    grouped = groupby(workers, key=lambda worker: worker.stages[0].name)
    return [chain for _, group in grouped for chain in _cut(Chain(tuple(group)), is_apart)]


@contextmanager
def pinned(flow: FlowGraph, pins: Mapping[str, int]) -> Iterator[None]:
    """Let a flow be planned with so many workers of some stages."""
    stages = [stage for stage in flow.stages if stage.name in pins]
    before = [stage.workers for stage in stages]
    for stage in stages:
        stage.workers = pins[stage.name]
    try:
        yield
    finally:
        for stage, workers in zip(stages, before, strict=True):
            stage.workers = workers


def is_one_file(stage: Stage) -> bool:
    """True if one task writes all of a sink, because the user has said so or named a file."""
    if stage.kind is not StageKind.SINK or stage.workers is not None:
        return stage.workers == 1
    return getattr(stage.what, "files", None) == 1 or getattr(stage.what, "names_a_file", False)


def index_of(worker_id: str) -> int:
    """Return which of its stage's workers an id names."""
    return int(worker_id.rpartition(".")[2])


def _cut(chain: Chain, is_apart: Callable[[Stage, Stage], bool]) -> list[Chain]:
    """Cut a chain before its sink, and a parallel one where states begin."""
    for at, stage in enumerate(chain.stages[1:], start=1):
        if is_apart(stage, chain.stages[0]):
            first, rest = zip(*(_cut_worker(worker, at) for worker in chain.workers), strict=True)
            return [Chain(first), *_cut(Chain(rest), is_apart)]
    return [chain]


def _cut_worker(worker: WorkerPlan, at: int) -> tuple[WorkerPlan, WorkerPlan]:
    before, behind = worker.stages[:at], worker.stages[at:]
    number = behind[0].inputs[0].number
    sender, receiver = f"{worker.id}/{number}", f"{behind[0].name}.{worker.index}"
    letters = [edge for edge in worker.outputs if edge.number == DEAD_LETTERS]
    outputs = (EdgePlan(number, LOCAL, sender, (receiver,)), *letters)
    renamed = [replace(e, sender=_renamed(e.sender, worker.id, receiver)) for e in worker.outputs]
    return (
        replace(worker, stages=before, outputs=outputs),
        replace(worker, id=receiver, stages=behind, senders=(sender,), outputs=tuple(renamed)),
    )


def _renamed(sender: str, old: str, new: str) -> str:
    return new + sender.removeprefix(old)


def without_letters(chain: Chain) -> Chain:
    """Return a sink that is fed on the driver, where events can't fail any more."""
    return Chain(tuple(replace(worker, outputs=()) for worker in chain.workers))


def senders_of(chain: Chain, chains: Sequence[Chain]) -> list[Chain]:
    """Return the chains that send to one."""
    return [other for other in chains if chain.takes_from(other)]
