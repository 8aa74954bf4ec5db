"""What Spark's tasks do in a micro-batch: as in a batch, but states come from the batch before.

Behind the last row comes a checkpoint, at which a worker keeps what has changed of its state; only
in the last batch of all it is the end of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain as joined
from pathlib import Path
from typing import Any

from shunter.flow.graph.instructions import CHECKPOINT, END_OF_STREAM, Instruction
from shunter.flow.graph.keys import KeyGroupPartitioner
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.batch.envelopes import (
    LAST_EPOCH,
    CurrentEpoch,
    EnvelopeInbox,
    EnvelopeOutbox,
    EnvelopeRow,
    Rows,
    States,
    instruction_in,
    rows_in,
)
from shunter.flow.runners.spark.batch.tasks import (
    FRAME_SENDERS,
    ChainWorker,
    Work,
    partition_number,
)
from shunter.flow.runners.spark.dataframe_source import FrameRows
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.runners.spark.shipping.shipped_code import ShippedCode
from shunter.flow.runners.spark.stream.identity import BY_KEY, WHOLE, keeps
from shunter.flow.runners.spark.stream.states import Heads, StateFiles
from shunter.flow.runners.spark.stream.worker_states import WorkerStates
from shunter.flow.runtime.aggregator import joined_snapshots
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.ordered import joined_held
from shunter.flow.runtime.plan import WorkerPlan
from shunter.flow.runtime.stage_worker import BATCH
from shunter.flow.runtime.states import NOT_KEPT


@dataclass(frozen=True)
class MicroBatch:
    """One batch of a stream. `states` names the files at `checkpoint` of the batch before."""

    number: int
    is_last: bool
    checkpoint: str
    states: Heads

    @property
    def ending(self) -> Instruction:
        """What comes behind the last event."""
        if self.is_last:
            return Instruction(END_OF_STREAM)
        return Instruction(CHECKPOINT, number=self.number)


@dataclass
class MicroBatchTask:
    """Called by Spark with the rows for one worker of `count`, in order.

    `names` are those of its stages.
    """

    names: str
    shipped: ShippedCode
    is_source: bool
    batch: MicroBatch
    count: int

    @property
    def __name__(self) -> str:
        """What Spark's UI calls it."""
        return self.names

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.names):
            rows = joined.from_iterable(map(rows_in, batches))
            first = next(rows, None)
            if first is not None:
                worker = MicroBatchWorker(self.shipped.opened(), first, self.batch, self.count)
                run = worker.from_raw if self.is_source else worker.from_rows
                yield from run(joined([first], rows))


class MicroBatchWorker(ChainWorker):
    """One worker in one micro-batch. `first` is the first of its rows."""

    def __init__(self, work: Work, first: EnvelopeRow, batch: MicroBatch, count: int) -> None:
        super().__init__(work, first.node)
        self._batch, self._count_of_workers = batch, count
        self._keepers = [stage for stage in self._plan.stages if keeps(stage)]
        self._own: WorkerStates | None = None
        self._is_idle = first.epoch == LAST_EPOCH and not batch.is_last
        self._written: States = {}
        self._is_kept = False
        if first.sender >= FRAME_SENDERS:
            self._sender = first.sender

    def from_rows(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Work on what other chains have sent."""
        self._inbox = EnvelopeInbox(rows, self._codec, self._clock, last=self._batch.ending)
        yield from self._run(self._plan, {self._plan.id: self._inbox}, **self._keeping())

    def from_raw(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Work on what was read from a source."""
        ending = None if self._batch.is_last else self._ask
        source = RawEvents(rows, self._codec, self._clock, self._count, ending)
        first, *rest = self._plan.stages
        plan = replace(self._plan, stages=(replace(first, what=source), *rest))
        yield from self._run(plan, {}, **self._keeping())

    @property
    def _is_done(self) -> bool:
        return self._is_kept or super()._is_done

    def _count(self, number: int) -> None:
        self._assembly.workers[0].instructions = number - 1

    def _ask(self) -> None:
        self._assembly.workers[0].ask_for_checkpoint(self._batch.number)

    def _keeping(self) -> dict[str, Any]:
        """How the worker gets its state, if it will need it, and how it keeps it."""
        options: dict[str, Any] = {
            "partitioner": KeyGroupPartitioner,
            "on_checkpoint": self._keep,
        }
        if self._is_idle or not self._keepers:
            return options
        by_key = [stage.name for stage in self._keepers if keeps(stage) == BY_KEY]
        self._own = own = WorkerStates(
            StateFiles(self._batch.checkpoint, copies=_copies()),
            self._plan.id,
            self._plan.index,
            self._count_of_workers,
            self._batch.states.get(self._plan.id, []),
            stages=[stage.name for stage in self._keepers],
            keyed=by_key[0] if by_key else None,
        )
        saved = None if own.is_new else {self._plan.id: self._saved(own)}
        return {**options, "stored": own.stored, "saved": saved}

    def _saved(self, own: WorkerStates) -> dict[str, Any]:
        states = [
            self._state(own, stage)
            for stage in self._plan.stages
            if stage.kind not in (StageKind.SOURCE, StageKind.SINK)
        ]
        return {
            "position": None,
            "states": states,
            "sink": None,
            "numbers": {},
            "inbox": None,
            "instructions": 0,
            "has_ended": False,
        }

    def _state(self, own: WorkerStates, stage: Stage) -> Any:
        """Return what is kept of a stage as a whole."""
        if not keeps(stage):
            return None
        found = own.whole(stage.name, is_keyed=keeps(stage) == BY_KEY)
        if not found:
            return NOT_KEPT
        if stage.kind is StageKind.AGGREGATE:
            return joined_snapshots(found)
        if keeps(stage) == BY_KEY and own.is_taken_over:
            return joined_held(found, stage, self._work.types, own.has_key)
        return found[0]

    def _keep(self, worker: str, batch: int, snapshot: dict[str, Any]) -> None:
        self._is_kept = True
        if self._own is None:
            return
        worked = (
            stage
            for stage in self._plan.stages
            if stage.kind not in (StageKind.SOURCE, StageKind.SINK)
        )
        whole = {
            stage.name: state
            for stage, state in zip(worked, snapshot["states"], strict=True)
            if keeps(stage) == WHOLE or state is not None
        }
        if self._own.has_changed(whole):
            self._written = {worker: self._own.write(batch, whole).text()}

    def _states(self) -> States:
        return {**super()._states(), **self._written}


def _copies() -> Path:
    """Return where this executor keeps copies of files: Spark removes it when it ends."""
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory()) / "shunter-states"


class RawEvents:
    """What was read from a source, as a source; at the end of the rows it ends, or calls `ask`.

    `count` is told the number of each instruction before that is given.
    """

    def __init__(
        self,
        rows: Iterator[EnvelopeRow],
        codec: EventCodec,
        clock: CurrentEpoch,
        count: Callable[[int], None],
        ask: Callable[[], None] | None,
    ) -> None:
        self._rows, self._codec, self._clock = rows, codec, clock
        self._count, self._ask = count, ask

    def open(self, position: None) -> None:
        assert position is None

    def read(self, _: int) -> list[Any] | None:
        for row in self._rows:
            if row.epoch != LAST_EPOCH:
                self._clock.epoch = row.epoch
                if row.is_instruction:
                    instruction = instruction_in(row, self._codec)[0]
                    self._count(instruction.number)
                    return [instruction]
                return self._codec.decode(row.kind, row.body)
        self._clock.epoch = LAST_EPOCH
        if self._ask is None:
            return None
        self._ask()
        return []

    def position(self) -> None:
        return None

    def close(self) -> None:
        return


@dataclass
class FramePacking:
    """Called by Spark with a partition of a DataFrame that streams; makes raw events of rows."""

    names: str
    shipped: ShippedCode
    edge: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.names):
            work: Work = self.shipped.opened()
            plan: WorkerPlan = work.workers[0]
            frame: FrameRows = plan.stages[0].what
            sender = work.ranks[0] + FRAME_SENDERS * (1 + partition_number())
            rows, clock = Rows(), CurrentEpoch(work.ranks[0] + work.sources)
            outbox = EnvelopeOutbox(rows, EventCodec(work.types), clock, sender, self.edge, 0)
            source, number = frame.of(batches), 0
            while (events := source.read(BATCH)) is not None:
                outbox.enqueue("", number, events)
                number += len(events)
                if rows.is_full:
                    yield rows.batch()
            outbox.pack()
            yield rows.batch()
