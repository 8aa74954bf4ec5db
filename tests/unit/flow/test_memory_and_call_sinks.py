"""Sinks that keep events in memory, or call somebody with each."""

from __future__ import annotations

import io
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.sinks import Collect, CountEvents, Each, Print, as_sink
from unit.flow.io_steps import write_all


@given(saved_at=st.integers(0, 9), killed_at=st.integers(0, 9))
def test_what_came_behind_a_checkpoint_is_taken_back(saved_at: int, killed_at: int) -> None:
    events = list(range(9))
    mine = ["before"]
    for sink in (Collect(), CountEvents(), Collect(mine)):
        sink.open(None)
        write_all(sink, events)
        sink.open(None)
        write_all(sink, events[:saved_at])
        saved = sink.checkpoint()
        write_all(sink, events[saved_at:killed_at])
        sink.open(saved)
        write_all(sink, events[saved_at:])
        sink.close()
        assert sink.count == 9 if isinstance(sink, CountEvents) else sink.events[-9:] == events
    assert mine == ["before", *events]


def test_several_workers_fill_one_list_and_one_count() -> None:
    mine = ["before"]
    for whole in (Collect(mine), CountEvents()):
        for _ in range(2):
            parts = [whole.part(index, 2) for index in range(2)]
            for part in parts:
                part.open(None)
            write_all(parts[0], ["a", "b"])
            saved = parts[0].checkpoint()
            write_all(parts[1], ["c"])
            write_all(parts[0], ["lost"])
            parts[0].open(saved)
            write_all(parts[0], ["d"])
        if isinstance(whole, CountEvents):
            assert whole.count == 4
    assert sorted(mine) == ["a", "b", "before", "c", "d"]


def test_a_function_is_called_with_each_event() -> None:
    seen: list[Any] = []
    sink = as_sink(seen.append)
    assert isinstance(sink, Each)
    sink.open(None)

    assert sink.write([1, 2]) == 2
    assert seen == [1, 2]


def test_events_are_shown_as_json_and_texts_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = io.StringIO()
    for sink in (Print(), Print(file)):
        sink.open(None)
        sink.write(["hello", {"day": date(2026, 1, 2)}, 1 + 2j])

    assert capsys.readouterr().out == file.getvalue() == 'hello\n{"day":"2026-01-02"}\n"(1+2j)"\n'


def test_what_is_wrapped_and_what_is_not() -> None:
    count, mine = CountEvents(), list[Any]()

    assert as_sink(count) is count
    write_all(as_sink(mine), [1, 2, 3])
    assert mine == [1, 2, 3]
    with pytest.raises(FlowError, match=r"no sink, for it has no open\(\); pass one of"):
        as_sink(7)
