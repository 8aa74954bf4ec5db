"""Makes the workers of a plan: the same for one process and for many.

Who runs them says how a receiver is reached, and calls their `step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Protocol

from shunter.flow.graph.keys import KeyPartitioner
from shunter.flow.graph.routes import LOCAL
from shunter.flow.graph.stages import StageKind
from shunter.flow.runners.shared_outputs import shared_sink
from shunter.flow.runtime.bad_events import BadEvents
from shunter.flow.runtime.inbox import LIMIT, EventInbox, Inbox
from shunter.flow.runtime.plan import DEAD_LETTERS, EdgePlan, FlowPlan, WorkerPlan
from shunter.flow.runtime.sender import Sender, StageOutbox
from shunter.flow.runtime.stage_worker import SinkOutbox, StageWorker, Tally
from shunter.flow.runtime.states import KeyedStates
from shunter.flow.sinks.port import Sink
from shunter.flow.sinks.sink_argument import as_sink
from shunter.flow.sources.port import Source
from shunter.flow.sources.source_argument import as_source

Snapshots = Mapping[str, Any]
"""By worker, what a checkpoint keeps."""

ToReceiver = Callable[[EdgePlan, str], StageOutbox]
"""Returns the way to a receiver."""


class FlowPolicy(Protocol):
    """What workers must know of their flow."""

    @property
    def on_error(self) -> Any: ...
    @property
    def instructions(self) -> tuple[str, ...]: ...
    @property
    def types(self) -> Mapping[str, type]: ...


class Assembly:
    """Workers in this process, open and ready to be stepped, each before those that send to it.

    `stored` are states by key that are kept outside of workers, by stage; `partitioner` says which
    worker has a key. `output_run` is that of outputs which several workers share; `shares` are
    their sinks, by worker.
    """

    def __init__(
        self,
        flow: FlowPolicy,
        plan: FlowPlan,
        workers: Iterable[WorkerPlan],
        outbox: ToReceiver,
        *,
        inboxes: Mapping[str, EventInbox],
        saved: Snapshots | None = None,
        on_checkpoint: Callable[[str, int, Any], None] = lambda _, __, ___: None,
        stored: Mapping[str, KeyedStates] | None = None,
        partitioner: type[KeyPartitioner] = KeyPartitioner,
        output_run: str = "",
    ) -> None:
        self._flow, self._saved, self._output_run = flow, saved, output_run
        self._stored, self._partitioner = stored, partitioner
        self._on_checkpoint = on_checkpoint
        self._sources: list[Source] = []
        self.sinks: list[Sink] = []
        self.shares: dict[str, Sink] = {}
        self.workers = [self._made(worker, outbox, inboxes.get(worker.id)) for worker in workers]

    def step(self) -> bool:
        """Let every worker do what it can; tell whether that was anything."""
        moved = [worker.step() for worker in self.workers]
        return any(moved)

    @property
    def is_done(self) -> bool:
        return all(worker.is_done for worker in self.workers)

    def close(self) -> None:
        """Close sources, and let sinks show what they have got."""
        self._close_sources()
        for sink in self.sinks:
            sink.close()

    def abandon(self) -> None:
        """Close sources; what sinks have got stays where it is, for the next try."""
        self._close_sources()
        for sink in self.sinks:
            let_go = getattr(sink, "abandon", None)
            if let_go is not None:
                let_go()

    def _close_sources(self) -> None:
        sources, self._sources = self._sources, []
        for source in sources:
            source.close()

    def _made(
        self, worker: WorkerPlan, outbox: ToReceiver, inbox: EventInbox | None
    ) -> StageWorker:
        saved = None if self._saved is None else self._saved[worker.id]
        first, last = worker.stages[0], worker.stages[-1]
        dead = [edge.sender for edge in worker.outputs if edge.number == DEAD_LETTERS]
        bad_events = BadEvents(self._flow.on_error, sender=dead[0] if dead else None)
        sendings = {
            edge.sender: Sender(
                edge.sender,
                edge.route,
                [outbox(edge, receiver) for receiver in edge.receivers],
                partitioner=self._partitioner,
            )
            for edge in worker.outputs
        }
        tallies = {stage.name: Tally() for stage in worker.stages}
        source = sink = None
        if first.kind is StageKind.SOURCE:
            source = self._part(as_source(first.what), worker)
            source.open(None if saved is None else saved["position"])
            self._sources.append(source)
        if last.kind is StageKind.SINK:
            sink = self._sink(worker)
            sink.open(None if saved is None else saved["sink"])
            self.sinks.append(sink)
            way = SinkOutbox(sink, last, tallies[last.name])
            sendings[f"{worker.id}/sink"] = Sender(f"{worker.id}/sink", LOCAL, [way])
        for edge in last.outputs:
            bad_events.blame_for_keys(f"{worker.id}/{edge.number}", edge.downstream)
        made = StageWorker(
            worker.id,
            worker.stages,
            sendings,
            bad_events,
            tallies,
            source=source,
            inbox=inbox,
            sink=sink,
            known=frozenset(self._flow.instructions),
            late_senders=frozenset(
                f"{worker.id}/{edge.number}" for edge in last.outputs if edge.is_late
            ),
            types=lambda: self._flow.types,
            on_checkpoint=lambda number, kept: self._on_checkpoint(worker.id, number, kept),
            stored=self._stored,
        )
        if saved is not None:
            made.restore(saved)
        return made

    def _sink(self, worker: WorkerPlan) -> Sink:
        if (shared := shared_sink(worker)) is None:
            sink: Sink = self._part(as_sink(worker.stages[-1].what), worker)
            return sink
        self.shares[worker.id] = shared.share(worker.index, self._output_run)
        return self.shares[worker.id]

    @staticmethod
    def _part(what: Any, worker: WorkerPlan) -> Any:
        """One worker's own share of a source or sink."""
        if worker.count == 1:
            return what
        part = getattr(what, "part", None)
        return copy(what) if part is None else part(worker.index, worker.count)


def inbox_of(worker: WorkerPlan, plan: FlowPlan, *, limit: int = LIMIT) -> Inbox | None:
    """The inbox that a worker's senders fill; none for a source."""
    if worker.is_source:
        return None
    return Inbox(
        worker.senders, limit=limit, carriers=lambda origin: plan.senders_from(worker.id, origin)
    )
