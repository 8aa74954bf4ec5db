"""What goes from task to task on Spark: rows with packed events, or with one instruction.

`node` is the index of the receiver, `sender` a number of its own for each worker, and `seq` rises
with each row of a sender. `epoch` puts all instructions of a flow into one order, the same for
every task: an instruction has an epoch of its own, events have that of the next one which their
source might send, and the end of the stream has the last. So sorted rows bring everything before
an instruction first, and the copies of it that several senders pass on side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from shunter.flow.arrow import arrow, whole_array
from shunter.flow.graph.instructions import CHECKPOINT, END_OF_STREAM, Instruction, least_far
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.sources.port import Source

COLUMNS = (
    "edge int, node int, epoch long, is_instruction boolean, sender long, seq long, kind string, "
    "body binary"
)
ORDER = ("epoch", "is_instruction", "edge", "sender", "seq")

LAST_EPOCH = 2**62
FIRST_EVENTS, MOST_EVENTS = 256, 4_096
ROW_BYTES = 1 << 18
BATCH_BYTES = 1 << 20


class StageTally(NamedTuple):
    """Events that a stage has taken, given, and failed at; `error` is what one failed of."""

    taken: int = 0
    given: int = 0
    failed: int = 0
    error: str = ""

    def plus(self, other: StageTally) -> StageTally:
        return StageTally(
            self.taken + other.taken,
            self.given + other.given,
            self.failed + other.failed,
            other.error or self.error,
        )


Tallies = dict[str, dict[str, StageTally]]
"""By worker and stage."""

States = dict[str, str]
"""By worker: what it says of the file that it has written its state to."""


class EnvelopeRow(NamedTuple):
    """One row."""

    edge: int
    node: int
    epoch: int
    is_instruction: bool
    sender: int
    seq: int
    kind: str
    body: bytes


class _Told(msgspec.Struct, array_like=True):
    """An instruction as bytes; the last one brings tallies along, and where states were kept."""

    name: str
    origin: str
    number: int
    kind: str
    data: bytes
    tallies: Tallies
    states: States


@dataclass
class CurrentEpoch:
    """The epoch of what a task works on."""

    epoch: int = 0


class Rows:
    """Rows that a task has made, until they are given to Spark."""

    def __init__(self) -> None:
        self._rows: list[EnvelopeRow] = []
        self._bytes = 0

    def append(self, row: EnvelopeRow) -> None:
        self._rows.append(row)
        self._bytes += len(row.body)

    @property
    def is_full(self) -> bool:
        return self._bytes >= BATCH_BYTES

    def batch(self) -> Any:
        """Take them, as a batch of Arrow's."""
        rows, self._rows, self._bytes = self._rows, [], 0
        columns = list(zip(*rows, strict=True)) or [()] * len(EnvelopeRow._fields)
        return arrow().RecordBatch.from_arrays(
            [whole_array(values, kind) for values, kind in zip(columns, _kinds(), strict=True)],
            names=list(EnvelopeRow._fields),
        )


def _kinds() -> list[Any]:
    pa = arrow()
    return [
        pa.int32(), pa.int32(), pa.int64(), pa.bool_(), pa.int64(), pa.int64(), pa.string(),
        pa.binary(),
    ]  # fmt: skip


def rows_in(batch: Any) -> Iterator[EnvelopeRow]:
    """Return the rows of a batch of Arrow's."""
    columns = [column.to_pylist() for column in batch.columns]
    return map(EnvelopeRow._make, zip(*columns, strict=True))


@dataclass
class EnvelopeOutbox:
    """One receiver behind one edge: packs what is for it. It always has room."""

    rows: Rows
    codec: EventCodec
    clock: CurrentEpoch
    sender: int
    edge: int
    node: int
    tallies: Callable[[], Tallies] = dict
    states: Callable[[], States] = dict
    _events: list[Any] = field(default_factory=list)
    _epoch: int = 0
    _seq: int = 0
    _limit: int = FIRST_EVENTS
    _taken: int = 0

    def room(self, _: str) -> int:
        return -self._taken

    def enqueue(self, _: str, first: int, events: Sequence[Any]) -> int:
        if self._epoch != self.clock.epoch:
            self.pack()
        if not self._events:
            self._epoch, self._seq = self.clock.epoch, first
        self._events += events
        self._taken += len(events)
        if len(self._events) >= self._limit:
            self.pack()
        return len(events)

    def instruct(self, _: str, number: int, instruction: Instruction) -> int:
        self.pack()
        kind, data = self.codec.encode([instruction.data])
        is_last = instruction.name in (END_OF_STREAM, CHECKPOINT)
        told = _Told(
            instruction.name,
            instruction.origin,
            instruction.number,
            kind,
            data,
            tallies=self.tallies() if is_last else {},
            states=self.states() if is_last else {},
        )
        self._append(self.clock.epoch, True, number, "", msgspec.msgpack.encode(told))
        return 1

    def pack(self) -> None:
        """Make rows of what has come so far."""
        events, self._events = self._events, []
        for at in range(0, len(events), self._limit):
            some = events[at : at + self._limit]
            kind, body = self.codec.encode(some)
            self._append(self._epoch, False, self._seq + at, kind, body)
        if events:
            fitting = ROW_BYTES * len(some) // max(1, len(body))
            self._limit = max(1, min(fitting, MOST_EVENTS))

    def _append(self, epoch: int, is_instruction: bool, seq: int, kind: str, body: bytes) -> None:
        self.rows.append(
            EnvelopeRow(self.edge, self.node, epoch, is_instruction, self.sender, seq, kind, body)
        )


END = Instruction(END_OF_STREAM)


class EnvelopeInbox:
    """Sorted rows, as a worker takes from its inbox; behind them comes the end, or what is last.

    `taken_from` ends with the edge by which the last events have come. `tallies` and `states` are
    what the workers before this one have told.
    """

    def __init__(
        self,
        rows: Iterable[EnvelopeRow],
        codec: EventCodec,
        clock: CurrentEpoch,
        *,
        last: Instruction = END,
    ) -> None:
        self._rows, self._codec, self._clock, self._last = iter(rows), codec, clock, last
        self._next: EnvelopeRow | None = None
        self.taken_from = ""
        self.tallies: Tallies = {}
        self.states: States = {}

    def take(self, _: int) -> list[Any] | Instruction:
        while (row := self._taken()) is not None:
            self._clock.epoch = row.epoch
            if not row.is_instruction:
                self.taken_from = f"{row.sender}/{row.edge}"
                return self._codec.decode(row.kind, row.body)
            instruction = self._copies_of(row)
            if row.epoch != LAST_EPOCH:
                return instruction
        self._clock.epoch = LAST_EPOCH
        return self._last

    def _taken(self) -> EnvelopeRow | None:
        row, self._next = self._next, None
        return next(self._rows, None) if row is None else row

    def _copies_of(self, row: EnvelopeRow) -> Instruction:
        """Take all copies of an instruction, which stand side by side, and make one of them."""
        found: Instruction | None = None
        copy: EnvelopeRow | None = row
        while copy is not None and copy.is_instruction and copy.epoch == row.epoch:
            instruction, told = instruction_in(copy, self._codec)
            self.tallies |= told.tallies
            self.states |= told.states
            found = instruction if found is None else least_far(found, instruction)
            copy = next(self._rows, None)
        self._next = copy
        assert found is not None, "there is one at least"
        return found

    def acknowledge(self, _: int) -> None:
        return

    def snapshot(self) -> None:
        """Return nothing: what one inbox has got, no other one gets."""

    def restore(self, saved: None) -> None:
        assert saved is None


def instruction_in(row: EnvelopeRow, codec: EventCodec) -> tuple[Instruction, _Told]:
    """Return the instruction that a row holds, and all that is told with it."""
    told = msgspec.msgpack.decode(row.body, type=_Told)
    data = codec.decode(told.kind, told.data)[0]
    return Instruction(told.name, data, told.origin, told.number), told


def epoch_of(instructions: int, rank: int, of: int) -> int:
    """Return the epoch of what a source sends after so many instructions.

    `rank` is the place of its worker among the `of` workers of all sources.
    """
    return of * (1 + instructions) + rank


class StampedSource:
    """A source whose events and instructions get their epochs as they are read."""

    def __init__(self, source: Source, clock: CurrentEpoch, rank: int, of: int) -> None:
        self._source, self._clock = source, clock
        self._rank, self._of = rank, of
        self._instructions = 0

    def open(self, position: Any | None) -> None:
        self._source.open(position)

    def read(self, limit: int) -> list[Any] | None:
        events = self._source.read(limit)
        now = epoch_of(self._instructions, self._rank, self._of)
        self._clock.epoch = LAST_EPOCH if events is None else now
        if events is not None and len(events) == 1 and type(events[0]) is Instruction:
            self._instructions += 1
        return events

    def position(self) -> Any:
        return self._source.position()

    def close(self) -> None:
        self._source.close()
