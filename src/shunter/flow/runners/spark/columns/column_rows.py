"""From events to columns, in a task: what a chain gives to a stage that is Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from typing import Any

from shunter.errors import FlowError
from shunter.flow.arrow import arrow
from shunter.flow.graph.fields import Getter
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.graph.source_line import SourceLine
from shunter.flow.runners.spark.batch.envelopes import CurrentEpoch, EnvelopeInbox, Tallies, rows_in
from shunter.flow.runners.spark.session.faults import marked_faults
from shunter.flow.runners.spark.shipping.shipped_code import ShippedCode
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.sender import Bad
from shunter.flow.sinks.records import records_of

FULL = 8_192
"""So many rows make a batch."""


@dataclass(frozen=True)
class ColumnSink:
    """Where a chain's events become columns; it stands for the stage that reads these.

    `getters` are of the parts of an event, one for each column; with none, events are records
    whose fields are the columns. `schema` is Arrow's, and `fields` the same for Spark. `told` is
    called with the tallies of a task when that is done.
    """

    name: str
    where: SourceLine
    getters: tuple[Getter, ...]
    schema: Any
    fields: Any
    told: Callable[[Tallies], None]

    @property
    def functions(self) -> list[Any]:
        """The user's functions in it."""
        return [getter.function for getter in self.getters]

    def columns_of(self, events: list[Any]) -> list[list[Any]]:
        """Return the parts of events; what a user's function raises is passed on."""
        if self.getters:
            return [getter.many(events) for getter in self.getters]
        records = records_of(events)
        return [[record.get(name) for record in records] for name in self.schema.names]

    def batch(self, columns: Sequence[list[Any]]) -> Any:
        """Return a batch of Arrow's, or raise a FlowError where values are of other types."""
        try:
            arrays = map(arrow().array, columns, self.schema.types)
            return arrow().RecordBatch.from_arrays(list(arrays), schema=self.schema)
        except (arrow().ArrowException, TypeError, OverflowError) as error:
            known = ", ".join(f"{each.name} {each.type}" for each in self.schema)
            raise FlowError(
                f"what comes to it does not fit the schema: {error}; by annotations or the schema "
                f"given it is {known}; mend these, or map the events",
                stage=self.name,
                place=str(self.where),
            ) from error


class ColumnRows:
    """Columns that a task has made, until they are given to Spark."""

    def __init__(self, sink: ColumnSink) -> None:
        self._sink = sink
        self._columns: list[list[Any]] = [[] for _ in sink.schema]
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= FULL

    def extend(self, events: list[Any], bad: Bad) -> None:
        """Take events; those of which a part can't be had are `bad`."""
        try:
            parts = self._sink.columns_of(events)
        except Exception as error:
            if len(events) == 1:
                bad(events[0], error)
                return
            for event in events:
                self.extend([event], bad)
            return
        for column, part in zip(self._columns, parts, strict=True):
            column += part
        self._count += len(events)

    def batch(self) -> Any:
        """Take them, as a batch of Arrow's."""
        columns, self._columns = self._columns, [[] for _ in self._columns]
        self._count = 0
        return self._sink.batch(columns)


@dataclass
class ColumnOutbox:
    """What stands behind the last edge of a chain that makes columns. It always has room."""

    rows: ColumnRows
    blame: Callable[[], Bad]

    def room(self, _: str) -> int:
        return FULL

    def enqueue(self, _: str, __: int, events: Sequence[Any]) -> int:
        self.rows.extend(list(events), self.blame())
        return len(events)

    def instruct(self, _: str, __: int, ___: Instruction) -> int:
        return 1


@dataclass
class EnvelopesToColumns:
    """Makes columns of envelopes, where several chains or one with several outputs sent them."""

    name: str
    shipped: ShippedCode

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with marked_faults(self.name):
            types, sink = self.shipped.opened()
            rows = joined.from_iterable(map(rows_in, batches))
            inbox = EnvelopeInbox(rows, EventCodec(types), CurrentEpoch())
            while True:
                events = inbox.take(0)
                if not isinstance(events, Instruction):
                    yield sink.batch(sink.columns_of(events))
                elif events.name == END_OF_STREAM:
                    sink.told(inbox.tallies)
                    return
