"""How much of a source goes into a micro-batch, and how the same is read once more.

Spark keeps an offset for each batch: the source's position, how many items were read before it, and
how many of them were instructions, for these give the epochs. A batch is read again by its number
of items, as a source may cut them otherwise the second time.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from shunter.errors import FlowError
from shunter.flow.graph.instructions import Instruction
from shunter.flow.runners.local import IDLE_SECONDS
from shunter.flow.runners.spark.batch.envelopes import CurrentEpoch, EnvelopeOutbox, Rows, epoch_of
from shunter.flow.runners.spark.shipping.shipped_code import ShippedCode
from shunter.flow.runtime.bad_events import blamed_on
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.runtime.stage_worker import BATCH
from shunter.flow.sources.port import Source
from shunter.flow.sources.source_argument import as_source

READ_SECONDS = 0.5
"""A source that gives little at a time is read for so long, and then the batch begins."""

AGAIN_SECONDS = 30.0
"""So long is waited for what was there before."""

RAW_EDGE = -2
"""Rows of the first source have this number of an edge, those of the others lower ones."""


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a source stands; `position` is what it says itself, as msgpack in base64."""

    position: str = ""
    items: int = 0
    instructions: int = 0
    has_ended: bool = False


class PackedReader:
    """Reads one worker's part of a source, a batch at a time. `shipped` holds a Work."""

    def __init__(self, shipped: ShippedCode, index: int, edge: int, max_events: int) -> None:
        self._shipped, self._index, self._edge, self._most = shipped, index, edge, max_events
        self._work: Any = None
        self._source: Source | None = None
        self._is_at: Offset | None = None

    def read(self, start: Offset) -> tuple[Any, Offset]:
        """Return a batch of Arrow's with what is there now, and where it ends."""
        if start.has_ended:
            return None, start
        until = time.monotonic() + READ_SECONDS
        return self._packed(start, self._some(start, until))

    def read_again(self, start: Offset, end: Offset) -> Any:
        """Return what was read between the two."""
        return self._packed(start, self._the_same(start, end.items - start.items))[0]

    def acknowledge(self, end: Offset) -> None:
        """Tell the source that nobody will ask again for what came before."""
        acknowledged = getattr(self._source, "acknowledged", None)
        if acknowledged is not None and end.position:
            acknowledged(_decoded(end.position))

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = self._is_at = None

    # ---- reading

    def _some(self, start: Offset, until: float) -> Iterator[list[Any] | None]:
        source, left = self._opened(start), self._most
        while left > 0:
            events = self._read(source, min(left, BATCH))
            if events == []:
                return
            yield events
            if events is None or time.monotonic() > until:
                return
            left -= len(events)

    def _the_same(self, start: Offset, left: int) -> Iterator[list[Any]]:
        source, until = self._opened(start), time.monotonic() + AGAIN_SECONDS
        while left > 0:
            events = self._read(source, min(left, BATCH))
            if events is None or time.monotonic() > until:
                raise FlowError(
                    f"the source of {self._worker} has {left} items less than when it was first "
                    "read; a stream can go on only where its source gives the same again",
                    stage=self._stage.name,
                    place=str(self._stage.where),
                )
            if not events:
                time.sleep(IDLE_SECONDS)
                continue
            yield events
            left -= len(events)

    def _read(self, source: Source, limit: int) -> list[Any] | None:
        with blamed_on(self._stage, "read"):
            return source.read(limit)

    def _opened(self, start: Offset) -> Source:
        """Return the source, where it goes on at an offset; most often it is there already."""
        if self._work is None:
            self._work = self._shipped.opened()
        if self._source is not None and self._is_at == start:
            return self._source
        self.close()
        self._source = as_source(self._stage.what)
        with blamed_on(self._stage, "open"):
            self._source.open(_decoded(start.position) if start.position else None)
        return self._source

    # ---- packing

    def _packed(self, start: Offset, read: Iterator[list[Any] | None]) -> tuple[Any, Offset]:
        items, instructions, has_ended = start.items, start.instructions, False
        clock, rows, outbox = CurrentEpoch(), Rows(), None
        for events in read:
            if outbox is None:
                outbox = self._outbox(rows, clock)
            clock.epoch = epoch_of(instructions, self._rank, self._work.sources)
            if events is None:
                has_ended = True
                break
            if len(events) == 1 and type(events[0]) is Instruction:
                instructions += 1
                outbox.instruct("", items, replace(events[0], number=instructions))
            else:
                outbox.enqueue("", items, events)
            items += len(events)
        if items == start.items and not has_ended:
            self._is_at = start
            return None, start
        if outbox is not None:
            outbox.pack()
        assert self._source is not None
        end = Offset(
            position=_encoded(self._source.position()),
            items=items,
            instructions=instructions,
            has_ended=has_ended,
        )
        self._is_at = end
        return rows.batch(), end

    def _outbox(self, rows: Rows, clock: CurrentEpoch) -> EnvelopeOutbox:
        codec = EventCodec(self._work.types)
        return EnvelopeOutbox(rows, codec, clock, self._rank, self._edge, self._index)

    @property
    def _rank(self) -> int:
        return int(self._work.ranks[self._index])

    @property
    def _stage(self) -> Any:
        return self._work.workers[self._index].stages[0]

    @property
    def _worker(self) -> str:
        return str(self._work.workers[self._index].id)


def _encoded(position: Any) -> str:
    return base64.b64encode(msgspec.msgpack.encode(position)).decode()


def _decoded(position: str) -> Any:
    return msgspec.msgpack.decode(base64.b64decode(position))
