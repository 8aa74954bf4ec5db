"""What goes to stages that work key by key: chunks of a bucket's events, and the end.

A sender puts events into the buckets of all receivers, and packs what it holds when that is
enough: each bucket's events as one row, whose epoch is the bucket. So Spark sorts rows by bucket,
in its own memory and on its own disks, and a receiver has one bucket after the other, each key's
events in the order of sender and sequence. Events are packed by the codec, or as columns where
they have come as such.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shunter.flow.arrow import arrow, numbers_of, reordered
from shunter.flow.graph.instructions import Instruction
from shunter.flow.graph.routes import FieldKey, Route
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.spark.batch.column_events import ColumnEvents
from shunter.flow.runners.spark.batch.envelopes import (
    LAST_EPOCH,
    CurrentEpoch,
    EnvelopeInbox,
    EnvelopeOutbox,
    EnvelopeRow,
    Rows,
    Tallies,
    instruction_in,
)
from shunter.flow.runners.spark.batch.key_buckets import bucket_indexes, buckets_for, number_indexes
from shunter.flow.runtime.bad_events import blamed_on
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.key_runs import KeyRuns
from shunter.flow.runtime.sender import Bad
from shunter.flow.sources.arrow_rows import events_of

FIRST_HELD, LEAST_HELD, MOST_HELD = 16_384, 1_024, 32_768
"""How many events a sender holds before it packs them: as many as a processor's cache may have."""

HELD_ROWS = 32_768
"""How many rows it holds of columns."""

HELD_BYTES = 4 << 20
PART_BYTES = 2 << 20
"""A receiver works on a bucket at once up to so many packed bytes."""

COLUMNS_KIND = "columns:"
"""Before the schema, in the kind of a row whose events are columns."""


@dataclass(frozen=True)
class KeyedEdge:
    """An edge into a stage that works key by key, on so many nodes.

    `kind` is the type of events that come as columns.
    """

    number: int
    route: Route
    nodes: int
    kind: Any = None

    @property
    def buckets(self) -> int:
        """How many there are on all nodes; node and bucket are rest and quotient by nodes."""
        return self.nodes * buckets_for(self.nodes)


@dataclass(frozen=True)
class KeyedWork:
    """What a chain must know: its edges in, where it works key by key, and its edges out to others.

    `gives_columns` is of a source whose rows go on as columns. `state_bytes` is how much memory the
    states of a task may take before some of them go to disk.
    """

    into: Mapping[int, KeyedEdge] = field(default_factory=dict)
    out: Mapping[int, KeyedEdge] = field(default_factory=dict)
    gives_columns: bool = False
    state_bytes: int = 0


class KeyedOutbox:
    """All receivers behind a keyed edge. It always has room.

    An event whose key can't be had is given to `bad`.
    """

    def __init__(
        self,
        edge: KeyedEdge,
        rows: Rows,
        codec: EventCodec,
        sender: int,
        *,
        bad: Callable[[], Bad],
        tallies: Callable[[], Tallies],
    ) -> None:
        self._edge, self._rows, self._codec, self._sender = edge, rows, codec, sender
        self._bad, self._tallies = bad, tallies
        self._parts: list[list[Any]] = [[] for _ in range(edge.buckets)]
        self._appends = [part.append for part in self._parts]
        self._batches: list[Any] = []
        self._held = self._seq = 0
        self._limit = FIRST_HELD

    def room(self, _: str) -> int:
        return MOST_HELD

    def enqueue(self, _: str, __: int, events: Sequence[Any]) -> int:
        if isinstance(events, ColumnEvents):
            self._take_columns(events)
        else:
            self._take(list(events))
        return len(events)

    def instruct(self, name: str, number: int, instruction: Instruction) -> int:
        """Send the end to all; nothing else comes here."""
        self._pack()
        clock = CurrentEpoch(LAST_EPOCH)
        for node in range(self._edge.nodes):
            tallies = dict if node else self._tallies
            way = EnvelopeOutbox(
                self._rows, self._codec, clock, self._sender, self._edge.number, node, tallies
            )
            way.instruct(name, number, instruction)
        return 1

    def _take(self, events: list[Any]) -> None:
        if self._batches:
            self._pack()
        try:
            indexes = bucket_indexes(self._edge.route.keys_of(events), self._edge.buckets)
        except Exception as error:
            if len(events) == 1:
                self._bad()(events[0], error)
                return
            for event in events:
                self._take([event])
            return
        appends = self._appends
        for index, event in zip(indexes.tolist(), events, strict=True):
            appends[index](event)
        self._held += len(events)
        if self._held >= self._limit:
            self._pack()

    def _take_columns(self, events: ColumnEvents) -> None:
        key = self._edge.route.key
        if not len(events):
            return
        if not isinstance(key, FieldKey) or key.name not in events.batch.schema.names:
            self._take(events.events())
            return
        if self._held or (self._batches and events.batch.schema != self._batches[0].schema):
            self._pack()
        self._batches.append(events.batch)
        held = sum(batch.num_rows for batch in self._batches)
        if held >= HELD_ROWS or sum(batch.nbytes for batch in self._batches) >= HELD_BYTES:
            self._pack()

    def _pack(self) -> None:
        """Make rows of what is held."""
        if self._batches:
            self._pack_columns()
        size = 0
        for index, part in enumerate(self._parts):
            if part:
                kind, body = self._codec.encode(part)
                size += len(body)
                self._append(index, kind, body)
                part.clear()
        if self._held:
            fitting = HELD_BYTES * self._held // max(1, size)
            self._limit = max(LEAST_HELD, min(fitting, MOST_HELD))
        self._held = 0

    def _pack_columns(self) -> None:
        """Sort rows by bucket, all columns at once, and cut them there."""
        np = arrow("numpy")
        batch = _joined(self._batches)
        self._batches = []
        key = self._edge.route.key
        assert isinstance(key, FieldKey)
        indexes = _indexes_of(batch.column(key.name), self._edge.buckets)
        order = np.argsort(indexes.astype(np.int32), kind="stable")
        batch = reordered(batch, order)
        ends = np.searchsorted(indexes[order], np.arange(self._edge.buckets), side="right").tolist()
        schema = COLUMNS_KIND + b64encode(batch.schema.serialize().to_pybytes()).decode()
        begin = 0
        for index, end in enumerate(ends):
            if end > begin:
                body = batch.slice(begin, end - begin).serialize().to_pybytes()
                self._append(index, schema, body)
            begin = end

    def _append(self, index: int, kind: str, body: bytes) -> None:
        bucket, node = divmod(index, self._edge.nodes)
        self._rows.append(
            EnvelopeRow(self._edge.number, node, bucket, False, self._sender, self._seq, kind, body)
        )
        self._seq += 1


def _joined(batches: list[Any]) -> Any:
    [batch] = arrow().Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _indexes_of(column: Any, count: int) -> Any:
    of_type = arrow("pyarrow.types")
    is_whole = of_type.is_integer(column.type) and not of_type.is_uint64(column.type)
    if is_whole and not column.null_count:
        return number_indexes(numbers_of(column), count)
    return bucket_indexes(column.to_pylist(), count)


class KeyedInbox(EnvelopeInbox):
    """Rows sorted by bucket, as a worker takes from its inbox: KeyRuns, and then the end."""

    def __init__(
        self,
        rows: Iterable[EnvelopeRow],
        codec: EventCodec,
        clock: CurrentEpoch,
        *,
        edges: Mapping[int, KeyedEdge],
        stage: Stage,
    ) -> None:
        super().__init__(rows, codec, clock)
        self._edges, self._stage = edges, stage
        self._bucket = -1
        self._groups: defaultdict[Any, list[Any]] = defaultdict(list)
        self._count = self._size = 0
        self._columns: list[Any] = []
        self._columns_of: tuple[int, str] = 0, ""
        self._schemas: dict[str, Any] = {}

    def take(self, _: int) -> Any:
        for row in self._rows:
            if row.is_instruction:
                self.tallies |= instruction_in(row, self._codec)[1].tallies
                continue
            before, self._bucket = self._bucket, row.epoch
            part = self._part(is_last=True) if before not in (-1, row.epoch) else None
            self._add(row)
            if part is not None:
                return part
            if self._size >= PART_BYTES:
                return self._part(is_last=False)
        if self._bucket >= 0:
            self._bucket = -1
            return self._part(is_last=True)
        self._clock.epoch = LAST_EPOCH
        return self._last

    def _add(self, row: EnvelopeRow) -> None:
        self._size += len(row.body)
        source = row.edge, row.kind
        if self._columns and source != self._columns_of:
            self._make_events()
        if row.kind.startswith(COLUMNS_KIND):
            read = arrow("pyarrow.ipc").read_record_batch
            self._columns.append(read(arrow().py_buffer(row.body), self._schema(row.kind)))
            self._columns_of = source
        else:
            self._group(self._edges[row.edge], self._codec.decode(row.kind, row.body))

    def _make_events(self) -> None:
        """Make events of the columns that have come."""
        edge = self._edges[self._columns_of[0]]
        batch = _joined(self._columns)
        self._columns = []
        self._group(edge, events_of(batch, edge.kind))

    def _group(self, edge: KeyedEdge, events: list[Any]) -> None:
        with blamed_on(self._stage, "key_by"):
            keys = edge.route.keys_of(events)
        groups = self._groups
        for key, event in zip(keys, events, strict=True):
            groups[key].append(event)
        self._count += len(events)

    def _part(self, *, is_last: bool) -> KeyRuns:
        if self._columns:
            self._make_events()
        part = KeyRuns(self._groups, self._count, is_last)
        self._groups, self._count, self._size = defaultdict(list), 0, 0
        return part

    def _schema(self, kind: str) -> Any:
        if kind not in self._schemas:
            packed = b64decode(kind.removeprefix(COLUMNS_KIND))
            self._schemas[kind] = arrow("pyarrow.ipc").read_schema(arrow().py_buffer(packed))
        return self._schemas[kind]
