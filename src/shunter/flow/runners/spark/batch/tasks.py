"""What Spark's tasks do: one worker of a chain, from its rows or its source to rows again.

A task is made where the run is started, and goes to executors with all it needs. There the worker
is the same as on engines; its inbox and outboxes are rows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain as joined
from typing import TYPE_CHECKING, Any

from shunter.flow.arrow import arrow
from shunter.flow.graph.checks import POLICIES
from shunter.flow.graph.event_types import users_modules
from shunter.flow.graph.flow_graph import FlowGraph
from shunter.flow.graph.routes import LOCAL
from shunter.flow.graph.stages import Edge, Stage, StageKind
from shunter.flow.runners.assembly import Assembly
from shunter.flow.runners.local import IDLE_SECONDS
from shunter.flow.runners.spark.batch.chains import Chain, index_of
from shunter.flow.runners.spark.batch.column_events import ColumnSource
from shunter.flow.runners.spark.batch.envelopes import (
    CurrentEpoch,
    EnvelopeInbox,
    EnvelopeOutbox,
    EnvelopeRow,
    Rows,
    StageTally,
    StampedSource,
    States,
    Tallies,
    rows_in,
)
from shunter.flow.runners.spark.batch.file_splits import SplitSource
from shunter.flow.runners.spark.batch.keyed_chunks import KeyedInbox, KeyedOutbox, KeyedWork
from shunter.flow.runners.spark.batch.task_sinks import FilesOfTask, SinkManifest, manifest_row
from shunter.flow.runners.spark.columns.column_rows import ColumnOutbox, ColumnRows, ColumnSink
from shunter.flow.runners.spark.dataframe_source import DataFrameSource, FrameRows
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.runners.spark.shipping.shipped_code import ShippedCode, shipped
from shunter.flow.runtime.bounded_instances import BoundedKeyed
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.key_runs import KeyByKey
from shunter.flow.runtime.operators import OperatedBy
from shunter.flow.runtime.plan import EdgePlan, FlowPlan, WorkerPlan
from shunter.flow.runtime.sender import Bad, StageOutbox
from shunter.flow.sinks.task_files import TaskFiles
from shunter.flow.sources.source_argument import as_source

if TYPE_CHECKING:
    from shunter.flow.runners.spark.batch.spilled_states import SqliteStates

OBJECTS = 100_000
"""Garbage collection runs after this many allocations in a task."""

FRAME_SENDERS = 1 << 32
"""Senders that read a DataFrame or splits of files have numbers from here on, one for each
partition or split, in their order."""


@dataclass(frozen=True)
class Policy:
    """What a worker must know of its flow."""

    on_error: str
    instructions: tuple[str, ...]
    types: Mapping[str, type]


@dataclass
class Work:
    """What goes to executors: a chain, without the rest of its flow."""

    policy: Policy
    workers: dict[int, WorkerPlan]
    ranks: dict[int, int]
    sources: int
    types: Mapping[str, type]
    columns: ColumnSink | None = None
    keyed: KeyedWork = field(default_factory=KeyedWork)


@dataclass
class ChainTask:
    """Called by Spark with the batches of one partition. `names` are those of the stages."""

    names: str
    shipped: ShippedCode
    reads: str = "rows"

    @property
    def __name__(self) -> str:
        """What Spark's UI calls it."""
        return self.names

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.names), rare_collections(), returned_memory():
            work = self.shipped.opened()
            match self.reads:
                case "source":
                    indexes = [each for batch in batches for each in batch.column(0).to_pylist()]
                    for index in indexes:
                        yield from ChainWorker(work, index).from_source()
                case "splits":
                    numbers = [each for batch in batches for each in batch.column(0).to_pylist()]
                    for number in numbers:
                        yield from ChainWorker(work, 0).from_split(number)
                case "frame":
                    yield from ChainWorker(work, 0).from_frame(batches)
                case _:
                    rows = joined.from_iterable(map(rows_in, batches))
                    first = next(rows, None)
                    if first is not None:
                        worker = ChainWorker(work, first.node)
                        yield from worker.from_rows(joined([first], rows))


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for cycles less often: it does so by the number of new objects, and events
    come by the thousand. It saves a quarter of the time of a chain of small functions."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def returned_memory() -> Iterator[None]:
    """Let Arrow take memory from the system and give it back. Its own pool keeps what was freed:
    40 MB in a task that reads Parquet, and it is no faster here."""
    pa = arrow()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


class ChainWorker:
    """One worker of a chain in a task."""

    def __init__(self, work: Work, index: int) -> None:
        self._work = work
        self._plan = work.workers[index]
        self._sender = work.ranks[index]
        self._codec = EventCodec(work.types)
        self._clock = CurrentEpoch()
        self._rows = Rows() if work.columns is None else ColumnRows(work.columns)
        self._inbox: EnvelopeInbox | None = None
        self._frame: FrameRows | None = None
        self._assembly: Assembly
        self._carrier = None if self._ends_in_sink else self._plan.outputs[0]

    def from_rows(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Work on what other chains have sent."""
        first, *rest = self._plan.stages
        stores: list[SqliteStates] = []
        if first.kind is StageKind.STATEFUL and first.keyed and not first.is_ordered:
            first = replace(first, what=OperatedBy(first.what, self._keyed_operator(stores)))
        self._inbox = self._inbox_for(rows)
        plan = replace(self._plan, stages=(first, *rest))
        try:
            yield from self._run(plan, {plan.id: self._inbox})
        finally:
            for store in stores:
                store.close()

    def _inbox_for(self, rows: Iterator[Any]) -> EnvelopeInbox:
        edges, stage = self._work.keyed.into, self._plan.stages[0]
        if not edges:
            return EnvelopeInbox(rows, self._codec, self._clock)
        return KeyedInbox(rows, self._codec, self._clock, edges=edges, stage=stage)

    def _keyed_operator(self, stores: list[SqliteStates]) -> Callable[[Stage, Bad], BoundedKeyed]:
        """Return what makes the operator of a keyed stage; the stores that it opens are noted."""

        def open_store() -> SqliteStates:
            # Few tasks need it, and SQLite would be in the memory of all.
            from shunter.flow.runners.spark.batch.spilled_states import SqliteStates

            stores.append(SqliteStates())
            return stores[-1]

        work = self._work.keyed
        operator = KeyByKey if work.into else BoundedKeyed
        return lambda stage, bad: operator(stage, bad, open_store, work.state_bytes)

    def from_source(self) -> Iterator[Any]:
        """Read a source, or this worker's part of it."""
        yield from self._run(self._reading(as_source(self._plan.stages[0].what)), {})

    def from_frame(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Read one partition of a DataFrame."""
        self._sender += FRAME_SENDERS * (1 + partition_number())
        self._frame = frame = self._plan.stages[0].what
        plan = self._reading(frame.of(batches))
        yield from self._run(plan, {})

    def from_split(self, number: int) -> Iterator[Any]:
        """Read one split of a source's files."""
        self._sender += FRAME_SENDERS * (1 + number)
        yield from self._run(self._reading(self._plan.stages[0].what.at(number)), {})

    def _reading(self, source: Any) -> WorkerPlan:
        first, *rest = self._plan.stages
        if self._work.keyed.gives_columns:
            source = ColumnSource(source)
        stamped = StampedSource(source, self._clock, self._sender, self._work.sources)
        return replace(self._plan, stages=(replace(first, what=stamped), *rest))

    def _run(self, plan: WorkerPlan, inboxes: dict[str, Any], **options: Any) -> Iterator[Any]:
        """Step the worker until it is done; `options` are more of an Assembly's."""
        flow, alone = self._work.policy, FlowPlan(1, (plan,))
        self._assembly = Assembly(flow, alone, [plan], self._outbox, inboxes=inboxes, **options)
        try:
            while not self._is_done:
                if not self._assembly.step():
                    time.sleep(IDLE_SECONDS)
                if self._rows.is_full:
                    yield self._rows.batch()
            self._assembly.close()
        except BaseException:
            self._assembly.abandon()
            raise
        if self._ends_in_sink:
            assert isinstance(self._rows, Rows), "columns end in no sink"
            self._rows.append(self._manifest())
        yield self._rows.batch()
        if self._work.columns is not None:
            self._work.columns.told(self._tallies())

    @property
    def _ends_in_sink(self) -> bool:
        return self._plan.stages[-1].kind is StageKind.SINK

    @property
    def _is_done(self) -> bool:
        return self._assembly.is_done

    def _outbox(self, edge: EdgePlan, receiver: str) -> StageOutbox:
        if isinstance(self._rows, ColumnRows):
            [into] = self._plan.stages[-1].outputs
            return ColumnOutbox(
                self._rows, lambda: self._assembly.workers[0].blame(into.downstream)
            )
        is_carrier = edge == self._carrier and receiver == edge.receivers[0]
        if edge.number in self._work.keyed.out:
            return self._keyed_outbox(edge.number, is_carrier=is_carrier)
        return EnvelopeOutbox(
            self._rows,
            self._codec,
            self._clock,
            self._sender,
            edge.number,
            index_of(receiver),
            tallies=self._tallies if is_carrier else dict,
            states=self._states if is_carrier else dict,
        )

    def _manifest(self) -> EnvelopeRow:
        """What this worker has written, and what it and those before it have done."""
        [sink] = self._assembly.sinks
        number = partition_number()
        tallies = {f"{worker}@{number}": told for worker, told in self._tallies().items()}
        manifest = SinkManifest(list(getattr(sink, "parts", ())), tallies)
        return manifest_row(self._plan.index, self._sender, manifest)

    def _keyed_outbox(self, number: int, *, is_carrier: bool) -> KeyedOutbox:
        assert isinstance(self._rows, Rows), "columns go to sinks, and not by key"
        [into] = [edge for edge in self._plan.stages[-1].outputs if edge.number == number]
        return KeyedOutbox(
            self._work.keyed.out[number],
            self._rows,
            self._codec,
            self._sender,
            bad=lambda: self._assembly.workers[0].blame(into.downstream),
            tallies=self._tallies if is_carrier else dict,
        )

    def _states(self) -> States:
        """Where the workers before this one have kept their states."""
        return {} if self._inbox is None else self._inbox.states

    def _tallies(self) -> Tallies:
        """What this worker and those before it have done, which goes on with the end."""
        worker = self._assembly.workers[0]
        own = {
            name: StageTally(tally.taken, tally.given, worker.failed(name), worker.last_error(name))
            for name, tally in worker.tallies.items()
        }
        names = {edge.downstream.name for edge in self._plan.stages[-1].outputs}
        own |= {
            name: StageTally(failed=failed, error=worker.last_error(name))
            for name in names
            if (failed := worker.failed(name))
        }
        if self._frame is not None and self._frame.results_of:
            own[self._frame.results_of] = StageTally(self._frame.taken, self._frame.given)
        known = {} if self._inbox is None else self._inbox.tallies
        return {**known, f"{worker.id}:{self._sender}": own}


def partition_number() -> int:
    """Return which partition a task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "called by Spark alone"
    return context.partitionId()


# ---- made where the run is started


def chain_task(
    flow: FlowGraph,
    chain: Chain,
    ranks: Mapping[str, int],
    sources: int,
    files: Mapping[str, TaskFiles] | None = None,
    keyed: KeyedWork | None = None,
) -> ChainTask:
    """Make the task of a chain. `ranks` numbers all workers, those of the `sources` first.

    `files` says of sinks that tasks write where their files go.
    """
    stages = tuple(map(_shipped, chain.stages))
    if chain.sink is not None and files and chain.sink.name in files:
        what = FilesOfTask(files[chain.sink.name])
        stages = (*stages[:-1], replace(stages[-1], what=what))
    keyed = keyed or KeyedWork()
    work = Work(
        policy=Policy(
            flow.on_error if flow.on_error in POLICIES else "letters", flow.instructions, flow.types
        ),
        workers={each.index: _shipped_worker(each, stages, keyed) for each in chain.workers},
        ranks={each.index: ranks[each.id] for each in chain.workers},
        sources=sources,
        types=flow.types,
        columns=column_sink(chain),
        keyed=keyed,
    )
    names = ", ".join(stage.name for stage in stages)
    reads = "rows"
    if chain.is_source:
        what = stages[0].what
        reads = "frame" if isinstance(what, DataFrameSource) else "source"
        reads = "splits" if isinstance(what, SplitSource) else reads
    packed = shipped(work, users_modules(flow), what=f"the stage {names}")
    return ChainTask(names, packed, reads)


def column_sink(chain: Chain) -> ColumnSink | None:
    """Return where a chain makes columns, if it does: behind its only edge, with no other there."""
    edges = chain.stages[-1].outputs
    if len(edges) != 1 or len(chain.edges) != 1 or len(edges[0].downstream.inputs) != 1:
        return None
    what = edges[0].downstream.what
    return what if isinstance(what, ColumnSink) else None


def _shipped_worker(worker: WorkerPlan, stages: tuple[Stage, ...], keyed: KeyedWork) -> WorkerPlan:
    """Return a worker with its own part of the source, where there is one.

    All receivers of an edge to a stage that works key by key are behind one outbox.
    """
    first, *rest = stages
    if first.kind is StageKind.SOURCE:
        first = replace(first, what=_sendable(first.what, worker))
    outputs = tuple(
        replace(edge, route=LOCAL, receivers=edge.receivers[:1])
        if edge.number in keyed.out
        else edge
        for edge in worker.outputs
    )
    return replace(worker, count=1, stages=(first, *rest), senders=(), outputs=outputs)


def _shipped(stage: Stage) -> Stage:
    """Return a stage without the graph that it is in."""
    slim = _alone(stage, stage.what)
    slim.inputs = [_edge(edge, slim) for edge in stage.inputs]
    slim.outputs = [_edge(edge, _alone(edge.downstream, None)) for edge in stage.outputs]
    return slim


def _alone(stage: Stage, what: Any) -> Stage:
    nobodys = FlowGraph("shipped")
    return Stage(nobodys, stage.name, stage.kind, what, stage.workers, stage.where)


def _edge(edge: Edge, downstream: Stage) -> Edge:
    return replace(edge, upstream=_alone(edge.upstream, None), downstream=downstream)


def _sendable(what: Any, worker: WorkerPlan) -> Any:
    """Return what of a source goes to executors; what can be read only once is read here."""
    if isinstance(what, DataFrameSource):
        return what.rows()
    part = getattr(what, "part", None)
    if part is not None:
        return part(worker.index, worker.count)
    return list(what) if isinstance(what, Iterator) else what
