"""Where a flow runs: which workers there are, on which node, and who sends to whom.

A stage has workers 0, 1, 2, ..., and worker i lives on node i mod N. Neighbours that are joined by
a local edge and need no choice of a receiver are fused: one worker does them all in a row. A worker
that nothing would ever reach is left out. Every process that has the flow makes the same plan.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from shunter.errors import FlowError
from shunter.flow.graph.checks import POLICIES
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import BALANCED, Route, RouteKind
from shunter.flow.graph.stages import Edge, Stage, StageKind

DEAD_LETTERS = -1
"""The number of the edge by which events go on which a function raised."""

Links = dict[int, tuple[int, ...]]
"""Of one edge: to which indexes downstream each index upstream sends."""


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """One edge out of a worker. `receivers` are the ids of workers, in the order of their indexes.

    By key, the index of a key is also the place of its receiver here.
    """

    number: int
    route: Route
    sender: str
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """A worker does `stages`, one after the other, to all that it gets from `senders`.

    `count` is how many do the same, with those in between that are left out.
    """

    id: str
    index: int
    count: int
    node: int
    stages: tuple[Stage, ...]
    senders: tuple[str, ...]
    outputs: tuple[EdgePlan, ...]

    @property
    def is_source(self) -> bool:
        return self.stages[0].kind is StageKind.SOURCE


@dataclass(frozen=True)
class FlowPlan:
    """All workers, each before those that send to it."""

    nodes: int
    workers: tuple[WorkerPlan, ...]

    def on_node(self, node: int) -> tuple[WorkerPlan, ...]:
        """Return the workers of one node."""
        return tuple(worker for worker in self.workers if worker.node == node)

    def worker(self, worker_id: str) -> WorkerPlan:
        """Return the worker with this id."""
        return self._by_id[worker_id]

    def origins(self, worker_id: str) -> frozenset[str]:
        """Name the workers of sources from which this one is reached; a source's is its own."""
        return self._origins[worker_id]

    def senders_from(self, worker_id: str, source_id: str) -> frozenset[str]:
        """Name those of a worker's senders that carry what this worker of a source emits."""
        return frozenset(
            sender
            for sender in self._by_id[worker_id].senders
            if source_id in self._origins[self._owners[sender]]
        )

    @cached_property
    def _by_id(self) -> dict[str, WorkerPlan]:
        return {worker.id: worker for worker in self.workers}

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Whose each sender id is."""
        return {edge.sender: worker.id for worker in self.workers for edge in worker.outputs}

    @cached_property
    def _origins(self) -> dict[str, frozenset[str]]:
        origins: dict[str, frozenset[str]] = {}
        for worker in reversed(self.workers):
            before = (origins[self._owners[sender]] for sender in worker.senders)
            own = {worker.id} if worker.is_source else set()
            origins[worker.id] = frozenset(own).union(*before)
        return origins


def planned(flow: FlowGraph, nodes: int) -> FlowPlan:
    """Plan a flow for so many nodes; a FlowError says why that can't be."""
    if nodes < 1:
        raise FlowError(f"flow {flow.name!r} can't run on {nodes} nodes; give it 1 or more")
    flow.check()
    stages, letters = flow.in_order(), dead_letters_stage(flow)
    indexes, links = _reached(stages, nodes)
    chains = _chains(stages, indexes, links)
    first_of = {stage: chain[0] for chain in chains for stage in chain}
    senders: defaultdict[str, list[str]] = defaultdict(list)
    workers = []
    for chain in chains:
        first, count = chain[0], indexes[chain[0]][-1] + 1
        for index in indexes[first]:
            worker_id = _id(first, index)
            outputs = []
            for edge in chain[-1].outputs:
                receivers = tuple(_id(first_of[edge.downstream], i) for i in links[edge][index])
                sender = f"{worker_id}/{edge.number}"
                outputs.append(EdgePlan(edge.number, edge.route, sender, receivers))
                for receiver in receivers:
                    senders[receiver].append(sender)
            if letters is not None:
                outputs.append(_to_letters(letters, worker_id))
                senders[_id(letters, 0)].append(outputs[-1].sender)
            workers.append(
                WorkerPlan(
                    id=worker_id,
                    index=index,
                    count=count,
                    node=index % nodes,
                    stages=chain,
                    senders=tuple(senders[worker_id]),
                    outputs=tuple(outputs),
                )
            )
    if letters is not None:
        worker_id = _id(letters, 0)
        own = tuple(senders[worker_id])
        workers.append(WorkerPlan(worker_id, 0, 1, 0, (letters,), senders=own, outputs=()))
    return FlowPlan(nodes, tuple(reversed(workers)))


def edge_of(sender: str) -> int:
    """Return the number of the edge that a sender sends by."""
    return int(sender.rpartition("/")[2])


def dead_letters_stage(flow: FlowGraph) -> Stage | None:
    """Return the stage that gets the events on which functions raised, where there is one."""
    if flow.on_error in POLICIES:
        return None
    return Stage(flow, "dead letters", StageKind.SINK, flow.on_error, 1, flow.where)


def _to_letters(letters: Stage, worker_id: str) -> EdgePlan:
    return EdgePlan(DEAD_LETTERS, BALANCED, f"{worker_id}/dead", (_id(letters, 0),))


def _reached(
    stages: Iterable[Stage], nodes: int
) -> tuple[dict[Stage, list[int]], dict[Edge, Links]]:
    """Follow the events down: which workers of each stage are reached, and by whom."""
    indexes: dict[Stage, list[int]] = {}
    links: dict[Edge, Links] = {}
    for stage in stages:
        reached = set() if stage.inputs else set(range(_asked(stage, nodes)))
        for edge in stage.inputs:
            links[edge] = _links(edge, indexes[edge.upstream], nodes)
            reached.update(*links[edge].values())
        indexes[stage] = sorted(reached)
    return indexes, links


def _links(edge: Edge, senders: list[int], nodes: int) -> Links:
    count = _asked(edge.downstream, nodes)
    if edge.route.kind is not RouteKind.LOCAL:
        return dict.fromkeys(senders, tuple(range(count)))
    if _asked(edge.upstream, nodes) == count:
        return {index: (index,) for index in senders}
    links: Links = {}
    for node in range(nodes):
        here = [index for index in senders if index % nodes == node]
        links |= _shared_out(here, range(node, count, nodes)) or {i: (i % count,) for i in here}
    return links


def _shared_out(senders: list[int], receivers: range) -> Links:
    """Let each sender have receivers of its own; where these are too few, they are shared."""
    if not receivers:
        return {}
    return {
        index: tuple(receivers[place :: len(senders)]) or (receivers[place % len(receivers)],)
        for place, index in enumerate(senders)
    }


def _chains(
    stages: Iterable[Stage], indexes: dict[Stage, list[int]], links: dict[Edge, Links]
) -> list[tuple[Stage, ...]]:
    """Fuse neighbours; each chain stands behind all that feed it."""
    chains: dict[Stage, list[Stage]] = {}
    for stage in stages:
        edge = stage.inputs[0] if len(stage.inputs) == 1 else None
        if edge is not None and _is_fused(edge, indexes, links[edge]):
            chain = chains[edge.upstream]
        else:
            chain = []
        chain.append(stage)
        chains[stage] = chain
    return [tuple(chain) for stage, chain in chains.items() if chain[0] is stage]


def _is_fused(edge: Edge, indexes: dict[Stage, list[int]], links: Links) -> bool:
    """True if each worker upstream has one receiver, of its own index, for all it emits.

    Stages that ask for different numbers of workers get their own ones in any case.
    """
    up, down = edge.upstream, edge.downstream
    told = 1 if up.kind is StageKind.SOURCE and up.workers is None else up.workers
    return (
        edge.route.kind is RouteKind.LOCAL
        and not edge.is_late
        and StageKind.FRAME not in (up.kind, down.kind)
        and len(up.outputs) == 1
        and (None in (told, down.workers) or told == down.workers)
        and all(links[index] == (index,) for index in indexes[up])
    )


def _asked(stage: Stage, nodes: int) -> int:
    """How many workers a stage is to have: as many as it says, else one per node.

    A source that was told nothing has one, which keeps its order.
    """
    if stage.workers is None:
        return 1 if stage.kind is StageKind.SOURCE else nodes
    return stage.workers


def _id(first: Stage, index: int) -> str:
    return f"{first.name}.{index}"
