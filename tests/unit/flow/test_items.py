"""Any iterable is a source; what it can't give twice it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.sources import Items, JsonLines, Ticks, as_source
from unit.flow.io_steps import all_of, limits, read_with_a_stop, rest_of


@given(items=st.lists(st.integers()), sizes=limits, batches=st.integers(0, 9))
def test_reading_stops_anywhere_and_goes_on_there(
    items: list[int], sizes: list[int], batches: int
) -> None:
    assert all_of(Items(items), sizes) == items
    assert read_with_a_stop(lambda: Items(items), sizes, batches) == items
    assert read_with_a_stop(lambda: Items(lambda: iter(items)), sizes, batches) == items
    assert read_with_a_stop(lambda: Items(iter(items)), sizes, batches) == items


@given(
    items=st.lists(st.sampled_from([1, 2, Instruction(FLUSH)])), sizes=limits, more=st.integers(0)
)
def test_an_instruction_comes_alone_and_in_its_place(
    items: list[Any], sizes: list[int], more: int
) -> None:
    source = Items(items)
    source.open(None)
    found = []
    for size in sizes * 100:
        batch = source.read(size) or []
        assert len(batch) == 1 or Instruction not in map(type, batch)
        found += batch
    assert found == items
    assert read_with_a_stop(lambda: Items(items), sizes, more % 10) == items


def test_an_iterator_goes_on_but_is_not_begun_again() -> None:
    source = Items(iter(range(10)))
    source.open(None)
    assert source.read(4) == [0, 1, 2, 3]

    source.open(source.position())
    assert source.read(2) == [4, 5]
    with pytest.raises(FlowError, match="can be read only once, and 6 items are gone; pass a func"):
        source.open(None)


def test_a_function_is_called_anew_each_time() -> None:
    source = Items(lambda: (n * n for n in range(5)))

    assert all_of(source) == all_of(source) == [0, 1, 4, 9, 16]


def test_a_slow_iterable_is_not_waited_for() -> None:
    clock = iter(range(1000, 100_000))

    def slow() -> Iterator[int]:
        for number in clock:
            yield sum(range(2000)) * 0 + number

    source = Items(slow)
    source.open(None)

    assert 1 <= len(source.read(90_000) or []) < 90_000


def test_what_is_wrapped_and_what_is_not() -> None:
    ticks = Ticks(1)

    assert as_source(ticks) is ticks
    assert all_of(as_source([1, 2])) == [1, 2]
    assert all_of(as_source({"a": 1})) == ["a"]
    assert all_of(as_source(lambda: range(2))) == [0, 1]
    with pytest.raises(FlowError, match=r"pass JsonLines\('in.jsonl'\)"):
        as_source("in.jsonl")
    with pytest.raises(FlowError, match="7 has no items"):
        as_source(7)
    assert isinstance(as_source(JsonLines("in.jsonl")), JsonLines)


def test_what_has_only_a_part_of_a_sources_methods_is_refused() -> None:
    class Half:
        def read(self, limit: int) -> None: ...

        def open(self, position: Any) -> None: ...

    with pytest.raises(FlowError, match=r"but no position\(\)"):
        as_source(Half())


def test_ticks_come_when_due_and_end_at_their_limit() -> None:
    now = [100.0]
    source = Ticks(0.5, limit=5, clock=lambda: now[0])
    source.open(None)

    assert source.read(10) == []
    now[0] = 101.1
    assert source.read(1) == [{"tick": 1, "time": 100.5}]
    assert source.read(10) == [{"tick": 2, "time": 101.0}]
    assert source.read(10) == []

    again = Ticks(0.5, limit=5, clock=lambda: now[0])
    now[0] = 110.0
    again.open(source.position())
    assert [event["tick"] for event in rest_of(again, [2])] == [3, 4, 5]


def test_a_clock_that_goes_back_gives_no_tick_twice() -> None:
    now = [100.0]
    source = Ticks(1, clock=lambda: now[0])
    source.open(None)
    now[0] = 102.0
    assert len(source.read(10) or []) == 2

    now[0] = 50.0
    assert source.read(10) == []
    now[0] = 103.0
    assert source.read(10) == [{"tick": 3, "time": 103.0}]


def test_ticks_need_a_time_between_them() -> None:
    with pytest.raises(FlowError, match="every is 0; give seconds"):
        Ticks(0)
