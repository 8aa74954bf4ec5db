"""Micro-batches of a source: no event is left out or doubled, also when they are read again."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.graph.source_line import SourceLine
from shunter.flow.graph.stages import Stage, StageKind
from shunter.flow.runners.spark.batch.envelopes import instruction_in, rows_in
from shunter.flow.runners.spark.stream.packed_reader import RAW_EDGE, Offset, PackedReader
from shunter.flow.runtime.codec import EventCodec
from shunter.flow.sources import Ticks


class _Parcel:
    """What a reader opens: one worker of one source, of two in all."""

    def __init__(self, source: Any) -> None:
        stage = Stage(None, "numbers", StageKind.SOURCE, source, 1, SourceLine("flows.py", 3))  # type: ignore[arg-type]
        worker = SimpleNamespace(id="numbers.0", stages=(stage,))
        self.work = SimpleNamespace(workers={0: worker}, ranks={0: 1}, sources=2, types={})

    def opened(self) -> Any:
        return self.work


def reader_of(source: Any, most: int = 10) -> PackedReader:
    return PackedReader(_Parcel(source), 0, RAW_EDGE, most)  # type: ignore[arg-type]


def items_in(batch: Any) -> list[tuple[int, Any]]:
    """Return events and instructions with their epochs, in order."""
    codec, found = EventCodec({}), []
    for row in () if batch is None else rows_in(batch):
        if row.is_instruction:
            found.append((row.epoch, instruction_in(row, codec)[0].name))
        else:
            found += [(row.epoch, event) for event in codec.decode(row.kind, row.body)]
    return found


items = st.lists(st.one_of(st.integers(0, 99), st.just(Instruction(FLUSH))), max_size=60)


@given(items=items, most=st.integers(1, 25), others=st.integers(1, 25))
def test_all_batches_hold_what_the_source_gives_and_can_be_read_again(
    items: list[Any], most: int, others: int
) -> None:
    reader, batches, offsets = reader_of(items, most), [], [Offset()]
    while not offsets[-1].has_ended:
        batch, end = reader.read(offsets[-1])
        batches.append(items_in(batch))
        assert len(batches[-1]) <= most
        offsets.append(end)
    reader.close()

    epochs = [epoch for batch in batches for epoch, _ in batch]
    assert epochs == sorted(epochs)
    expected = [FLUSH if isinstance(item, Instruction) else item for item in items]
    assert [item for batch in batches for _, item in batch] == expected
    assert reader.read(offsets[-1]) == (None, offsets[-1])
    for number, (start, end) in enumerate(pairwise(offsets)):
        assert items_in(reader_of(items, others).read_again(start, end)) == batches[number]


def test_each_instruction_has_an_epoch_of_its_own_above_that_of_all_before_it() -> None:
    reader = reader_of([1, Instruction(FLUSH), 2, Instruction(FLUSH), 3], most=2)
    first, offset = reader.read(Offset())
    second, offset = reader.read(offset)
    third, _ = reader.read(offset)

    assert items_in(first) == [(3, 1), (3, FLUSH)]
    assert items_in(second) == [(5, 2), (5, FLUSH)]
    assert items_in(third) == [(7, 3)]


def test_a_source_that_has_nothing_now_makes_no_batch() -> None:
    now = 0.0
    reader = reader_of(Ticks(1.0, clock=lambda: now))

    _, began = reader.read(Offset())
    assert began == Offset()
    now = 2.5
    batch, end = reader.read(began)
    assert [event["tick"] for _, event in items_in(batch)] == [1, 2]
    assert reader.read(end) == (None, end)


def test_a_source_that_has_become_shorter_is_noticed() -> None:
    _, end = reader_of(range(5)).read(Offset())

    with pytest.raises(FlowError, match="has 2 items less than when it was first read"):
        reader_of(range(3)).read_again(Offset(), end)


def test_a_source_that_raises_is_blamed_by_name() -> None:
    def broken() -> Any:
        yield 1
        raise ValueError("torn")

    with pytest.raises(FlowError, match="stage 'numbers': ValueError: torn, in read"):
        reader_of(broken).read(Offset())
