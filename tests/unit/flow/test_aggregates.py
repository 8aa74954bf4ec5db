"""Aggregates and windows say what a plain computation over all events says."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shunter import Flow, FlowError
from shunter.flow.graph.aggregates import Aggregate, ApproxDistinct, Count, Max, Mean, Min, Sum
from shunter.flow.graph.instructions import WATERMARK, Instruction
from shunter.flow.graph.times import WRITERS, to_timestamp, writer_of
from shunter.flow.graph.windows import Marks, Window
from shunter.flow.runners.local import LocalRun
from shunter.flow.runtime.aggregator import loaded_accumulator, saved_accumulator
from shunter.flow.sinks import Collect
from shunter.flow.sources import Items, Watermarked

WHOLE = st.integers(-1000, 1000)
VALUES = st.lists(st.none() | WHOLE)


def told(aggregate: Aggregate, values: list[Any]) -> Any:
    state = aggregate.start()
    for value in values:
        state = aggregate.add(state, value)
        saved = msgspec.msgpack.decode(msgspec.msgpack.encode(saved_accumulator(aggregate, state)))
        state = loaded_accumulator(aggregate, saved)
    return aggregate.result(state)


def of_known(compute: Callable[[list[int]], Any]) -> Callable[[list[int | None]], Any]:
    def result(values: list[int | None]) -> Any:
        known = [value for value in values if value is not None]
        return compute(known) if known else None

    return result


REFERENCES: list[tuple[Aggregate, Callable[[list[int | None]], Any]]] = [
    (Count(), len),
    (Sum("v"), of_known(sum)),
    (Min("v"), of_known(min)),
    (Max("v"), of_known(max)),
    (Mean("v"), of_known(lambda known: sum(known) / len(known))),
    (ApproxDistinct("v"), lambda values: len(set(values) - {None})),
]


@pytest.mark.parametrize(
    ("aggregate", "reference"), REFERENCES, ids=["count", "sum", "min", "max", "mean", "distinct"]
)
@given(values=VALUES)
def test_an_aggregate_is_what_it_says_also_over_checkpoints(
    aggregate: Aggregate, reference: Callable[[list[int | None]], Any], values: list[int | None]
) -> None:
    assert told(aggregate, values) == reference(values)


@pytest.mark.parametrize("many", [1_000, 30_000])
def test_the_number_of_different_values_is_about_right(many: int) -> None:
    aggregate = ApproxDistinct("v")
    state = aggregate.start()
    for n in range(2 * many):
        state = aggregate.add(state, f"value {n % many}")

    assert aggregate.result(state) == pytest.approx(many, rel=0.06)


@pytest.mark.parametrize(
    "value", [datetime(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC), (1, "a"), "text"]
)
def test_states_keep_their_types_in_a_checkpoint(value: Any) -> None:
    assert told(Max("v"), [value]) == value
    assert type(told(Min("v"), [value])) is type(value)


def test_equal_values_of_different_types_count_once() -> None:
    assert told(ApproxDistinct("v"), [1, 1.0, True, "1", b"1", 0.5, (1,), (1.0,)]) == 5


# ---- windows


@given(
    size=st.integers(1, 50),
    every=st.integers(1, 50),
    moment=WHOLE | st.floats(-1000, 1000, allow_nan=False),
)
@example(size=2, every=2, moment=-5e-324)
def test_an_event_is_in_all_windows_that_hold_its_time(
    size: int, every: int, moment: float
) -> None:
    window = Window(max(size, every), every=every, time="at")

    starts = window.starts(moment)

    first = math.floor((moment - window.size) / every) - 1
    multiples = (number * every for number in range(first, first + window.most + 4))
    assert sorted(starts) == [start for start in multiples if start <= moment < window.end(start)]


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.sampled_from([None, UTC]))
def test_a_datetime_is_told_as_it_was(time: datetime, zone: Any) -> None:
    time = time.replace(tzinfo=zone)
    assert WRITERS[writer_of(time)](to_timestamp(time)) == time


@pytest.mark.parametrize("time", [None, "12:00", True, timedelta(1)])
def test_what_is_no_time_is_refused(time: Any) -> None:
    with pytest.raises(TypeError, match="let it be a number of seconds, or a datetime"):
        to_timestamp(time)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Window(0, time="at"), "size is 0; give seconds"),
        (lambda: Window(math.nan, time="at"), "size is nan; give seconds"),
        (lambda: Window(True, time="at"), "size is True; give seconds"),
        (lambda: Window(10, every=20, time="at"), "let every be at most size"),
        (lambda: Window(10, time=7), "time is 7; name the field"),
        (lambda: Sum(7), r"Sum\(7\): this is no part of an event"),
        (lambda: Watermarked([], time="at", every=0), r"every=0\): let time name"),
        (lambda: Watermarked([], time="at", lateness=-1), "lateness is -1; give seconds"),
    ],
)
def test_a_bad_window_is_refused_with_the_users_line(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(FlowError, match=said) as caught:
        make()
    assert __file__ in caught.value.place


# ---- marks


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | WHOLE)))
def test_time_is_as_far_as_the_origin_that_is_most_behind(marks: list[Any]) -> None:
    found = Marks(frozenset("a"))
    for origin, mark in marks:
        found.heard(origin, mark)
    again = Marks()
    again.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(found.snapshot())))

    heard = defaultdict(list, {"a": []})
    for origin, mark in marks:
        heard[origin] += [] if mark is None else [mark]
    is_known = all(heard[origin] for origin in {"a", *(origin for origin, _ in marks)})
    assert found.lowest == (min(map(max, heard.values())) if is_known else None)
    assert again.lowest == found.lowest


@given(st.lists(st.integers(0, 99)), st.integers(1, 10), st.integers(0, 20), st.data())
def test_a_watermarked_source_goes_on_where_it_was(
    times: list[int], every: int, lateness: int, data: st.DataObject
) -> None:
    def opened(position: Any) -> Watermarked:
        events = [{"at": time} for time in times]
        source = Watermarked(events, time="at", lateness=lateness, every=every)
        source.open(position)
        return source

    def everything(source: Watermarked) -> list[Any]:
        read = []
        while (some := source.read(7)) is not None:
            read += some
        return read

    whole = everything(opened(None))
    source, front = opened(None), []
    for _ in range(data.draw(st.integers(0, 10))):
        front += source.read(7) or []

    assert front + everything(opened(source.position())) == whole
    expected: list[Any] = [Instruction(WATERMARK)]
    for number, time in enumerate(times, start=1):
        expected.append({"at": time})
        if number % every == 0:
            expected.append(Instruction(WATERMARK, max(times[:number]) - lateness))
    assert whole == expected


def test_a_watermarked_source_splits_where_its_source_does() -> None:
    class Split(Items):
        def part(self, index: int, count: int) -> Items:
            return Items(list(range(index, 10, count)))

    part = Watermarked(Split([]), time=lambda n: n, every=2).part(1, 2)
    part.open(None)

    assert [part.read(9) for _ in range(3)] == [
        [Instruction(WATERMARK)], [1, 3], [Instruction(WATERMARK, 3)]
    ]  # fmt: skip
    assert not hasattr(Watermarked([1], time="at"), "part")


# ---- whole flows


TIMES = st.lists(st.integers(0, 60), max_size=60)


def at(event: tuple[str, int]) -> int:
    return event[1]


@given(TIMES, st.integers(1, 8), st.integers(0, 10), st.sampled_from([10, 5, 3]))
def test_windows_and_late_events_are_those_of_a_plain_reference(
    times: list[int], marks_every: int, lateness: int, every: int
) -> None:
    events = [("even" if time % 2 == 0 else "odd", time) for time in times]
    window = Window(10, every=every, time=at)
    results: list[dict[str, Any]] = []
    late: list[Any] = []
    flow = Flow("windows")
    source = Watermarked(events, time=at, lateness=lateness, every=marks_every)
    told = flow.source(source).key_by(0).aggregate(count=Count(), window=window)
    told.sink(Collect(results))
    told.late().sink(Collect(late))

    LocalRun(flow).run()

    counts: dict[tuple[str, int], int] = {}
    too_late = []
    mark = -math.inf
    for number, event in enumerate(events, start=1):
        open_windows = [s for s in window.starts(event[1]) if window.end(s) > mark]
        for start in open_windows:
            counts[event[0], int(start)] = counts.get((event[0], int(start)), 0) + 1
        if not open_windows:
            too_late.append(event)
        if number % marks_every == 0:
            mark = max(times[:number]) - lateness
    assert {(each["key"], each["start"]): each["count"] for each in results} == counts
    assert len(results) == len(counts)
    assert late == too_late


def test_two_sources_close_a_window_together() -> None:
    results: list[dict[str, Any]] = []
    flow = Flow("two")
    fast = flow.source(Watermarked(list(range(100)), time=lambda n: n, every=1), name="fast")
    slow = flow.source(Watermarked([0.5] * 5000, time=lambda n: n, every=1000), name="slow")
    told = flow.merge(fast, slow).key_by(lambda n: 0).aggregate(
        count=Count(), window=Window(10, time=lambda n: n)
    )  # fmt: skip
    told.sink(Collect(results))

    report = LocalRun(flow).run()

    assert results[0] == {"key": 0, "start": 0, "end": 10, "count": 5010}
    assert report["aggregate-3"].failed == 0


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda s: s.aggregate(n=Count()), r"put key_by\(…\) before aggregate"),
        (lambda s: s.balanced().aggregate(n=Count()), r"put key_by\(…\) before aggregate"),
        (lambda s: s.key_by("k").aggregate(), "there is nothing to compute"),
        (lambda s: s.key_by("k").aggregate(n=len), "pass an aggregate, such as Sum"),
        (lambda s: s.key_by("k").aggregate(n=Count(), window=60), "window is 60; pass a window"),
        (lambda s: s.key_by("k").aggregate(n=Count()).late(), "no event is late here"),
        (lambda s: s.map(len).late(), "no event is late here"),
        (lambda s: s.frame("select *"), "'select \\*' is no function"),
    ],
)
def test_what_cannot_be_aggregated_is_refused_at_once(
    build: Callable[[Any], Any], said: str
) -> None:
    flow = Flow("refused")
    with pytest.raises(FlowError, match=said) as caught:
        build(flow.source([]))
    assert __file__ in caught.value.place


def test_two_fields_of_one_name_in_a_result_are_refused() -> None:
    flow = Flow("twice")
    flow.source([]).key_by("shop").aggregate(shop=Count()).sink(print)

    with pytest.raises(FlowError, match="its results have 'shop' twice"):
        flow.check()


def test_a_frame_is_refused_before_anything_runs() -> None:
    opened: list[str] = []
    flow = Flow("framed")
    framed = flow.source(lambda: opened.append("source") or []).frame(lambda frame: frame)
    framed.sink(Collect())

    with pytest.raises(FlowError, match="which only Spark can run; run the flow with --on spark"):
        LocalRun(flow)
    assert not opened


def test_events_that_come_again_are_dropped() -> None:
    kept: list[dict[str, int]] = []
    flow = Flow("distinct")
    events = [{"from": n % 2, "n": n // 2} for n in [0, 1, 2, 0, 3, 1, 2, 4]]
    flow.source(events).distinct(sender="from", sequence="n").sink(Collect(kept))

    report = LocalRun(flow).run()

    assert [2 * each["n"] + each["from"] for each in kept] == [0, 1, 2, 3, 4]
    assert (report["distinct"].taken, report["distinct"].given) == (8, 5)
