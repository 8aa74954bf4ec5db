"""A class gets its key's events by their time, however they arrive and whatever breaks off."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow import Flow
from shunter.flow.graph.instructions import END_OF_STREAM, FLUSH, WATERMARK, Instruction
from shunter.flow.graph.stages import Stage
from shunter.flow.runners.local import LocalRun
from shunter.flow.runtime.operators import operator
from shunter.flow.runtime.ordered import AT_ONCE, Ordered
from shunter.flow.sources import JsonLines, Watermarked

VISITS = Path(__file__).parents[3] / "examples" / "visits" / "visits.jsonl"


@dataclass
class Seen:
    key: str
    at: Any
    n: int = 0


class Pass:
    def on_event(self, event: Any) -> Any:
        return event


class Told:
    """Tells instructions too."""

    def on_event(self, event: Any) -> Any:
        return event

    def on_instruction(self, instruction: Instruction) -> Any:
        return instruction.name, instruction.data


def refuse(event: Any, error: Exception) -> None:
    raise AssertionError(event) from error


def staged(factory: Any = Pass, *, late: bool = False, **asked: Any) -> Stage:
    flow = Flow("ordered", types=[Seen])
    source = flow.source(Watermarked([], time="at"), name="rows")
    stage = source.key_by("key", order_by="at", **asked).stateful(factory)
    stage.sink(print)
    if late:
        stage.late().sink(print, name="late")
    return stage


def ordered(stage: Stage, bad: Callable[[Any, Exception], None] = refuse) -> Ordered:
    made = operator(stage, bad, lambda: stage.flow.types)
    assert isinstance(made, Ordered)
    return made


def mark(time: Any, number: int = 1) -> Instruction:
    return Instruction(WATERMARK, time, "rows.0", number)


END = Instruction(END_OF_STREAM)

EVENTS = st.lists(
    st.builds(Seen, st.sampled_from("ab"), st.integers(0, 9) | st.just(2.5), st.integers(0, 3)),
    max_size=30,
)


@given(EVENTS, st.randoms(use_true_random=False), st.integers(1, 7), st.booleans())
def test_the_order_is_that_of_times_however_events_arrive(
    events: list[Seen], chance: Any, size: int, is_broken_off: bool
) -> None:
    stage = staged()

    def outcome(arriving: list[Seen]) -> list[Seen]:
        worker = ordered(stage)
        for at in range(0, len(arriving), size):
            assert worker.process(arriving[at : at + size])[0] == []
            if is_broken_off:
                saved = msgspec.msgpack.encode(worker.snapshot())
                worker = ordered(stage)
                worker.restore(msgspec.msgpack.decode(saved))
        return worker.instruct(END)

    found = outcome(events)
    assert sorted(map(repr, found)) == sorted(map(repr, events))
    assert [event.at for event in found] == sorted(event.at for event in events)
    again = events[:]
    chance.shuffle(again)
    assert outcome(again) == found


@given(EVENTS, st.lists(st.integers(-2, 12), max_size=5), st.integers(0, 3))
def test_marks_let_go_in_order_what_they_have_passed_by_the_lateness(
    events: list[Seen], marks: list[int], lateness: int
) -> None:
    late: list[Seen] = []
    worker = ordered(staged(lateness=lateness), lambda event, _: late.append(event))
    told: list[Seen] = []
    size = len(events) // (len(marks) + 1) + 1
    for number, time in enumerate([*marks, None], 1):
        at = (number - 1) * size
        worker.process(events[at : at + size])
        if time is not None:
            made = worker.instruct(mark(time, number))
            bound = max(marks[:number]) - lateness
            assert all(event.at < bound for event in made)
            told += made
    told += worker.instruct(END)

    assert [event.at for event in told] == sorted(event.at for event in told)
    assert sorted(map(repr, told + late)) == sorted(map(repr, events))


def test_an_event_at_the_mark_is_in_time() -> None:
    worker = ordered(staged())
    worker.process([Seen("a", 3), Seen("a", 5)])

    assert worker.instruct(mark(5)) == [Seen("a", 3)]
    worker.process([Seen("a", 5, 7), Seen("a", 6)])
    assert worker.instruct(END) == [Seen("a", 5, 0), Seen("a", 5, 7), Seen("a", 6)]


def test_a_late_event_is_a_bad_one_and_says_why() -> None:
    found: list[tuple[Any, str]] = []
    worker = ordered(staged(lateness=2), lambda event, error: found.append((event, str(error))))
    worker.instruct(mark(10))
    worker.process([Seen("a", 8), Seen("a", 7)])

    [(event, said)] = found
    assert event == Seen("a", 7)
    assert "its time is 7, and events before 8 have gone on; let lateness be longer" in said


def test_late_events_go_to_who_asks_for_them() -> None:
    worker = ordered(staged(late=True))
    worker.instruct(mark(10))
    worker.process([Seen("a", 9), Seen("a", 11)])

    assert worker.late() == [Seen("a", 9)]
    assert worker.late() == []
    assert worker.instruct(END) == [Seen("a", 11)]


def test_a_restored_one_knows_what_is_late() -> None:
    stage, late = staged(), []
    worker = ordered(stage)
    worker.instruct(mark(10))
    other = ordered(stage, lambda event, _: late.append(event))
    other.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(worker.snapshot())))

    other.process([Seen("a", 9)])

    assert late == [Seen("a", 9)]


@pytest.mark.parametrize("name", [FLUSH, "day_ended"])
def test_an_instruction_comes_behind_what_is_held(name: str) -> None:
    worker = ordered(staged(Told))
    worker.process([Seen("a", 2), Seen("a", 1)])

    assert worker.instruct(Instruction(name)) == [Seen("a", 1), Seen("a", 2), (name, None)]
    worker.process([Seen("a", 0)])
    assert worker.instruct(END)[0] == Seen("a", 0)


def test_behind_it_time_has_come_as_far_as_events_have_gone_on() -> None:
    worker = ordered(staged(Told, lateness=2))
    worker.process([Seen("a", 7), Seen("a", 8)])

    assert worker.instruct(mark(10)) == [Seen("a", 7), (WATERMARK, 8)]
    assert worker.passed_on(mark(10)) == mark(8)
    assert worker.passed_on(mark(None)) == mark(None)


def test_all_sources_must_have_passed_an_event() -> None:
    flow = Flow("two")
    low = flow.source(Watermarked([], time="at"), name="low")
    high = flow.source(Watermarked([], time="at"), name="high", workers=1)
    stage = flow.merge(low, high).key_by("key", order_by="at").stateful(Pass)
    worker = ordered(stage)
    worker.process([Seen("a", 1)])

    assert worker.instruct(Instruction(WATERMARK, 5, "low.0", 1)) == []
    assert worker.instruct(Instruction(WATERMARK, 2, "high.0", 1)) == [Seen("a", 1)]


def test_datetimes_are_ordered_as_moments() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    east = noon.astimezone(timezone(timedelta(hours=5, minutes=30))) + timedelta(minutes=5)
    worker = ordered(staged())
    worker.process([Seen("a", east), Seen("a", noon), Seen("a", noon + timedelta(minutes=9))])

    assert [event.at for event in worker.instruct(END)] == [
        noon, noon + timedelta(minutes=5), noon + timedelta(minutes=9),
    ]  # fmt: skip


def test_events_whose_time_is_none_are_bad() -> None:
    found: list[str] = []
    worker = ordered(staged(), lambda _, error: found.append(str(error)))
    worker.process([Seen("a", 1), Seen("a", None), Seen("a", float("nan")), Seen("a", "now")])

    assert worker.instruct(END) == [Seen("a", 1)]
    assert [said.partition(";")[0] for said in found] == [
        "its time is None", "its time is nan, which is before and behind nothing",
        "its time is 'now'",
    ]  # fmt: skip


def test_equal_times_are_ordered_by_what_events_are_also_where_they_have_sets() -> None:
    stage = staged()
    events = [{"key": "a", "at": 1, "tags": {f"tag {n}", "x", "y"}} for n in range(5)]
    events += [{"key": "a", "at": 1, n: n} for n in range(3)]

    orders = []
    for arriving in (events, events[::-1]):
        worker = ordered(stage)
        worker.process(arriving)
        orders.append(worker.instruct(END))
    assert orders[0] == orders[1]


def test_what_is_held_is_worked_on_bit_by_bit() -> None:
    flow, found = Flow("held"), []
    count = 3 * AT_ONCE
    rows = [{"key": n % 5, "at": -n} for n in range(count)]
    flow.source(rows).key_by("key", order_by="at").stateful(Pass).sink(found.append)
    run = LocalRun(flow, nodes=1)
    most, before = 0, 0
    while not run.is_done:
        run.step()
        most, before = max(most, len(found) - before), len(found)

    assert [row["at"] for row in found] == list(range(1 - count, 1))
    assert most <= 2 * AT_ONCE
    assert run.report["Pass"].taken == run.report["Pass"].given == count


def test_a_late_event_stops_a_run_that_says_nothing_of_bad_ones() -> None:
    flow = Flow("late")
    rows = Watermarked([{"key": 1, "at": n} for n in (1, 9, 2)], time="at", every=1)
    flow.source(rows).key_by("key", order_by="at").stateful(Pass).sink(print)

    with pytest.raises(FlowError, match="it is late: its time is 2, and events before 9"):
        flow.run("local")


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("workers", [1, 4])
def test_sessions_are_those_that_a_plain_program_finds(nodes: int, workers: int) -> None:
    class Sessions:
        def __init__(self) -> None:
            self.last: float | None = None

        def on_event(self, visit: dict[str, Any]) -> int | None:
            before, self.last = self.last, visit["at"]
            return 1 if before is None or visit["at"] - before > 20 else None

    flow, found = Flow("sessions"), []
    visits = flow.source(JsonLines(VISITS), name="visits", workers=workers)
    visits.key_by("visitor", order_by="at").stateful(Sessions).sink(found.append)
    flow.run("local", nodes=nodes)

    times = defaultdict(list)
    for line in VISITS.read_text().splitlines():
        visit = json.loads(line)
        times[visit["visitor"]].append(visit["at"])
    ordered_times = map(sorted, times.values())
    expected = sum(1 + sum(y - x > 20 for x, y in pairwise(each)) for each in ordered_times)
    assert len(found) == expected
