"""Where order is open a flow is refused, with its cause; where not, no schedule shows another."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from long_runs import examples
from shunter.errors import FlowError
from shunter.flow import Count, Flow
from shunter.flow.graph.open_order import open_order
from shunter.flow.graph.stages import Outlet, Stage
from shunter.flow.runners.local import LocalRun
from shunter.flow.sources import Watermarked


class Numbers:
    """The numbers below 40, three at a time; parts have every so many of them."""

    def __init__(self, first: int = 0, step: int = 1) -> None:
        self._first, self._step, self._at = first, step, first

    def part(self, index: int, count: int) -> Numbers:
        return Numbers(index, count)

    def open(self, position: int | None) -> None:
        self._at = self._first if position is None else position

    def read(self, _: int) -> list[int] | None:
        numbers = list(range(self._at, 40, self._step)[:3])
        self._at += len(numbers) * self._step
        return numbers or None

    def position(self) -> int:
        return self._at

    def close(self) -> None:
        return


class Watch:
    def on_event(self, event: Any) -> Any:
        return event


def same(event: Any) -> Any:
    return event


def parity(number: int) -> int:
    return number % 2


def third(number: int) -> int:
    return number % 3


def watched(build: Callable[[Stage], Stage], *, workers: int = 1) -> Stage:
    """The last stage of a flow."""
    flow = Flow("tried")
    stage = build(flow.source(Numbers(), name="numbers", workers=workers))
    stage.sink(print)
    return stage


# ---- what is open, and what is not

IN_ORDER: dict[str, Callable[[Stage], Stage]] = {
    "by key": lambda s: s.key_by("user").stateful(Watch),
    "without a key": lambda s: s.map(same).stateful(Watch),
    "a chain before the key": lambda s: s.map(same).filter(same).key_by(0).stateful(Watch),
    "one worker after the other": lambda s: s.map(same, workers=1).key_by("a").stateful(Watch),
    "balanced to one worker": lambda s: s.balanced().map(same, workers=1).stateful(Watch),
    "to all": lambda s: s.to_all().stateful(Watch, workers=3),
    "the same field again": lambda s: s.key_by("a").stateful(Watch).key_by("a").stateful(Watch),
    "the same position again": lambda s: s.key_by(0).map(same).key_by(0).stateful(Watch),
    "the same function again": lambda s: s.key_by(parity).map(same).key_by(parity).stateful(Watch),
    "another key behind one worker": lambda s: (
        s.key_by("a").stateful(Watch, workers=1).key_by("b").stateful(Watch)
    ),
    "the same key through one worker": lambda s: (
        s.key_by("a").map(same).local().map(same, workers=1).key_by("a").stateful(Watch)
    ),
    "an aggregate's key": lambda s: (
        s.balanced().map(same).key_by("a").aggregate(n=Count()).key_by("a").stateful(Watch)
    ),
    "an aggregate's key that was a function": lambda s: (
        s.key_by(parity).aggregate(n=Count()).key_by("key").stateful(Watch)
    ),
    "the time of a balanced event": lambda s: (
        s.balanced().map(same).key_by("a", order_by="at").stateful(Watch)
    ),
    "the same key behind a time": lambda s: (
        s.balanced()
        .map(same)
        .key_by("a", order_by="at")
        .stateful(Watch)
        .key_by("a")
        .stateful(Watch)
    ),
}

OPEN: dict[str, tuple[Callable[[Stage], Stage], str]] = {
    "balanced": (
        lambda s: s.balanced().map(same).key_by("a").stateful(Watch),
        "balanced among the workers of 'same'",
    ),
    "balanced, without a key": (
        lambda s: s.balanced().stateful(Watch),
        "balanced among the workers of 'Watch'",
    ),
    "shared out": (
        lambda s: s.map(same, workers=4).key_by("a").stateful(Watch),
        "shared out among the workers of 'same'",
    ),
    "another key": (
        lambda s: s.key_by("a").map(same).key_by("b").stateful(Watch),
        "the workers of 'same' have them by key a",
    ),
    "another function": (
        lambda s: s.key_by(parity).map(same).key_by(lambda n: n % 2).stateful(Watch),
        "the workers of 'same' have them by key parity",
    ),
    "keys that mingle": (
        lambda s: s.key_by("a").map(same).local().stateful(Watch, workers=1),
        "the workers of 'same' have them by key a",
    ),
    "two ways": (
        lambda s: s.flow.merge(s.map(same), s.filter(same)).key_by("a").stateful(Watch),
        "events of 'same' and 'same-2' come together at 'Watch'",
    ),
    "twice the same way": (
        lambda s: s.flow.merge(s.key_by("a"), s.key_by("b")).stateful(Watch),
        "events of 'numbers' come by two ways at 'Watch'",
    ),
    "copies that meet": (
        lambda s: s.to_all().map(same).key_by("a").stateful(Watch),
        "all workers of 'same' get every event",
    ),
    "an aggregate's results under another key": (
        lambda s: s.key_by("a").aggregate(n=Count(), name="n").key_by("b").stateful(Watch),
        "the workers of 'n' have them by key a",
    ),
    "behind a class that needs no order": (
        lambda s: (
            s.balanced().stateful(Watch, any_order=True, name="a").key_by("b").stateful(Watch)
        ),
        "balanced among the workers of 'a'",
    ),
    "a function of a DataFrame": (
        lambda s: s.frame(same, name="framed").key_by("a").stateful(Watch),
        "'framed' is a function of a DataFrame",
    ),
    "distinct": (
        lambda s: s.balanced().map(same).distinct(sender="a", sequence="n"),
        "balanced among the workers of 'same'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("build", IN_ORDER.values(), ids=IN_ORDER)
def test_a_class_whose_events_come_in_order_may_run(build: Callable[[Stage], Stage]) -> None:
    stage = watched(build)

    assert open_order(stage) is None
    stage.flow.check()


@pytest.mark.parametrize(("build", "cause"), OPEN.values(), ids=OPEN)
def test_a_class_whose_events_come_in_any_order_is_refused_with_the_cause(
    build: Callable[[Stage], Stage], cause: str
) -> None:
    stage = watched(build)

    with pytest.raises(FlowError, match="the order in which it gets events is open") as caught:
        stage.flow.check()

    assert cause in str(caught.value)
    assert (caught.value.stage, caught.value.place) == (stage.name, str(stage.where))
    assert "order_by=" in str(caught.value)
    assert "any_order=True" in str(caught.value)


@pytest.mark.parametrize(("build", "_"), OPEN.values(), ids=OPEN)
def test_a_class_that_needs_no_order_may_run_wherever(
    build: Callable[[Stage], Stage], _: str
) -> None:
    stage = watched(build)
    stage.any_order = True

    stage.flow.check()


def test_several_readers_are_a_cause_where_their_events_meet() -> None:
    stage = watched(lambda s: s.map(same, workers=4).key_by("a").stateful(Watch), workers=4)

    found = open_order(stage)
    assert found is not None
    assert found.why == "'numbers' reads with 4 workers"
    assert found.stage.name == "numbers"
    apart = watched(lambda s: s.map(same, workers=4).stateful(Watch, workers=4), workers=4)
    assert open_order(apart) is None
    together = watched(lambda s: s.stateful(Watch), workers=4)
    assert open_order(together) is not None


def test_several_sources_are_a_cause() -> None:
    flow = Flow("two")
    both = flow.merge(flow.source([1], name="low"), flow.source([2], name="high"))
    both.key_by(same).stateful(Watch).sink(print)

    with pytest.raises(FlowError, match="events of 'low' and 'high' come together at 'Watch'"):
        flow.check()


def test_aggregates_and_sinks_take_any_order() -> None:
    flow = Flow("taken")
    mapped = flow.source(Numbers(), workers=3).balanced().map(same)
    mapped.key_by("a").aggregate(n=Count()).sink(print)
    mapped.sink(print, name="printed")

    flow.check()


# ---- what may be asked for


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"order_by": 7}, "order_by is 7; name the field"),
        ({"order_by": ""}, "order_by is ''; name the field"),
        ({"lateness": 5}, "lateness is 5, and there is no order_by"),
        ({"order_by": "at", "lateness": -1}, "lateness is -1; give seconds"),
        ({"order_by": "at", "lateness": "1 min"}, "lateness is '1 min'; give seconds"),
    ],
)
def test_an_order_must_make_sense(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(FlowError, match=message) as caught:
        Flow("asked").source([1]).key_by("a", **asked)

    assert __file__ in caught.value.place


def refused(build: Callable[[Flow], Any], **options: Any) -> str:
    flow = Flow("refused", **options)
    build(flow).sink(print)
    with pytest.raises(FlowError) as caught:
        flow.check()
    return str(caught.value)


def test_an_order_is_for_classes() -> None:
    said = refused(lambda flow: flow.source([1]).key_by("a", order_by="at").map(same))

    assert "order_by, which is for stateful(…), and it is a map; leave order_by out" in said


def test_all_inputs_have_an_order_or_none() -> None:
    def build(flow: Flow) -> Outlet:
        one, two = flow.source([1], name="one"), flow.source([2], name="two")
        ordered = one.key_by("a", order_by="at"), two.key_by("a")
        return flow.merge(*ordered).stateful(Watch)

    assert "and those from 'two' without; say order_by for all" in refused(build)


def test_lateness_needs_a_source_that_says_how_far_time_has_come() -> None:
    said = refused(
        lambda flow: (
            flow.source([1], name="rows").key_by("a", order_by="at", lateness=5).stateful(Watch)
        )
    )

    assert "'rows' does not say how far time has come; wrap it, as in Watermarked(rows" in said


def test_all_sources_say_how_far_time_has_come_or_none() -> None:
    def build(flow: Flow) -> Outlet:
        marked = flow.source(Watermarked([1], time="at"), name="marked")
        both = flow.merge(marked, flow.source([2], name="plain"))
        return both.key_by("a", order_by="at").stateful(Watch)

    assert "some of its sources say how far time has come, and 'plain' does not" in refused(build)


def test_instructions_of_several_readers_have_no_place_in_an_order() -> None:
    said = refused(
        lambda flow: flow.source(Numbers(), workers=2).key_by("a", order_by="at").stateful(Watch),
        instructions=["day_ended"],
    )

    assert "instructions of its own (day_ended)" in said


def test_an_order_is_part_of_what_a_flow_is() -> None:
    def fingerprint(**asked: Any) -> str:
        flow = Flow("known")
        flow.source([1]).key_by("a", **asked).stateful(Watch).sink(print)
        return flow.fingerprint()

    found = [fingerprint(), fingerprint(order_by="at"), fingerprint(order_by="n")]
    found.append(fingerprint(order_by="at", lateness=3))
    assert len(set(found)) == len(found)


# ---- where order is not open, no schedule and no number of nodes shows another

KEYS = (parity, third)
COUNTS = st.sampled_from([None, None, 1, 2, 3])


@st.composite
def graphs(draw: st.DrawFn) -> Callable[[type], Flow]:
    """Draws what makes, again and again, one flow that ends in a class."""
    workers = draw(st.sampled_from([1, 1, 1, 3]))
    steps = draw(st.lists(st.tuples(ROUTES, COUNTS, st.integers(0, 9)), min_size=1, max_size=4))
    last = draw(st.tuples(ROUTES, COUNTS))

    def made(seen: type) -> Flow:
        flow = Flow("any")
        before: list[Stage] = [flow.source(Numbers(), name="numbers", workers=workers)]
        for route, count, choice in steps:
            outlet = _routed(flow, before, route, choice)
            name = f"stage-{len(before)}"
            if route == "ordered":
                before.append(outlet.stateful(Watch, name=name, workers=count))
            elif choice < 3:
                before.append(outlet.stateful(Watch, any_order=True, name=name, workers=count))
            else:
                before.append(outlet.map(same, name=name, workers=count))
        end = _routed(flow, before, last[0], 9)
        end.stateful(seen, any_order=True, name="seen", workers=last[1]).sink(_nowhere)
        for stage in before:
            if not stage.outputs:
                stage.sink(_nowhere, name=f"{stage.name}-out")
        return flow

    return made


ROUTES = st.sampled_from(
    ["local", "local", "balanced", "to_all", "parity", "parity", "third", "ordered", "both"]
)


def _routed(flow: Flow, before: list[Stage], route: str, choice: int) -> Outlet:
    stage = before[-1]
    match route:
        case "parity" | "third":
            return stage.key_by(parity if route == "parity" else third)
        case "ordered":
            return stage.key_by(third, order_by=same)
        case "both":
            return flow.merge(stage, before[choice % len(before)]).key_by(parity)
        case "local":
            return stage.local()
        case "balanced":
            return stage.balanced()
    return stage.to_all()


def _nowhere(_: Any) -> None:
    return


def _seen_in(made: Callable[[type], Flow], nodes: int, chance: random.Random) -> list[Any]:
    """What the instances of the last class have seen, worker by worker or key by key."""
    logs: list[tuple[Any, list[int]]] = []
    is_keyed = made(Watch).stage("seen").keyed

    class Seen:
        def __init__(self, key: Any) -> None:
            self.log: list[int] = []
            logs.append((key, self.log))

        def on_event(self, number: int) -> None:
            self.log.append(number)

    run = LocalRun(made(Seen if is_keyed else lambda: Seen(None)), nodes=nodes, limit=4)
    while not run.is_done:
        chance.choice(run.workers).step()
    return sorted((key, log) for key, log in logs if log or is_keyed)


@settings(deadline=None, max_examples=examples(200))
@given(graphs(), st.integers(0, 2**32))
def test_where_order_is_not_open_every_schedule_shows_the_same(
    made: Callable[[type], Flow], seed: int
) -> None:
    flow = made(Watch)
    if open_order(flow.stage("seen")) is not None:
        return
    chance = random.Random(seed)
    for nodes in (1, 2, 3):
        first, *others = (_seen_in(made, nodes, chance) for _ in range(3))
        assert all(other == first for other in others)
