"""What a user may write as a flow, and what is refused: by stage, by line, with a remedy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.graph.routes import LOCAL, Route, RouteKind
from shunter.flow.graph.stages import Edge, Outlet, Stage, StageKind


def parse(event: Any) -> Any:
    return event


def is_known(event: Any) -> bool:
    return bool(event)


class Watch:
    def on_event(self, event: Any) -> Any:
        return event


class Splittable:
    def read(self, limit: int) -> list[Any]:
        return []

    def part(self, index: int, count: int) -> Splittable:
        return self


def routes_into(stage: Stage) -> list[tuple[str, RouteKind]]:
    return [(edge.upstream.name, edge.route.kind) for edge in stage.inputs]


def begun() -> tuple[Flow, Stage]:
    flow = Flow("example")
    return flow, flow.source([1, 2], name="numbers")


# ---- building


def test_a_flow_reads_as_the_way_of_its_events() -> None:
    flow = Flow("temperatures", on_error="skip", instructions=("day_ended",))
    readings = flow.source([{"machine": "a"}], name="readings")
    changes = readings.map(parse).filter(is_known).key_by("machine").stateful(Watch, name="watch")
    changes.sink(print, name="changes")
    changes.balanced().flat_map(list, workers=4).sink(print)

    flow.check()
    assert [(stage.name, stage.kind) for stage in flow.stages] == [
        ("readings", StageKind.SOURCE),
        ("parse", StageKind.MAP),
        ("is_known", StageKind.FILTER),
        ("watch", StageKind.STATEFUL),
        ("changes", StageKind.SINK),
        ("list", StageKind.FLAT_MAP),
        ("print", StageKind.SINK),
    ]
    assert routes_into(flow.stage("parse")) == [("readings", RouteKind.LOCAL)]
    assert routes_into(flow.stage("watch")) == [("is_known", RouteKind.BY_KEY)]
    assert routes_into(flow.stage("changes")) == [("watch", RouteKind.LOCAL)]
    assert routes_into(flow.stage("list")) == [("watch", RouteKind.BALANCED)]
    assert flow.stage("readings").workers is None
    assert flow.stage("parse").workers is None
    assert flow.stage("list").workers == 4


def test_edges_are_numbered_as_they_were_defined_and_known_at_both_ends() -> None:
    flow, numbers = begun()
    first = numbers.map(parse)
    second = numbers.to_all().map(parse)
    flow.merge(first, second).sink(print)

    assert [edge.number for edge in flow.edges] == [0, 1, 2, 3]
    assert [str(edge) for edge in flow.edges] == [
        "numbers → parse",
        "numbers → parse-2",
        "parse → print",
        "parse-2 → print",
    ]
    for edge in flow.edges:
        assert edge in edge.upstream.outputs
        assert edge in edge.downstream.inputs


def test_a_stage_knows_the_line_that_made_it() -> None:
    _, numbers = begun()
    frame = inspect.currentframe()
    assert frame is not None

    stage = numbers.map(parse)
    line = frame.f_lineno - 1

    assert (stage.where.file, stage.where.line) == (__file__, line)
    assert str(stage.where) == f"{__file__}:{line}"


def test_only_stages_behind_a_key_are_keyed() -> None:
    _, numbers = begun()

    assert numbers.key_by(abs).stateful(Watch).keyed
    assert not numbers.stateful(Watch).keyed
    assert not numbers.to_all().stateful(Watch).keyed


def test_merged_stages_keep_their_own_routes() -> None:
    flow, one = begun()
    two = flow.source([3], name="two")

    stage = flow.merge(one, two.balanced(), two.key_by(abs)).map(parse)

    assert routes_into(stage) == [
        ("numbers", RouteKind.LOCAL),
        ("two", RouteKind.BALANCED),
        ("two", RouteKind.BY_KEY),
    ]


def test_merged_stages_can_be_routed_together() -> None:
    flow, one = begun()
    two = flow.source([3], name="two")

    stage = flow.merge(one, two).key_by(abs).stateful(Watch)

    assert routes_into(stage) == [("numbers", RouteKind.BY_KEY), ("two", RouteKind.BY_KEY)]


def test_a_stage_can_have_another_input_later() -> None:
    flow, numbers = begun()
    stage = numbers.key_by(abs).stateful(Watch, any_order=True)
    stage.sink(print)

    flow.connect(flow.source([3], name="late").key_by(abs), stage)

    flow.check()
    assert routes_into(stage) == [("numbers", RouteKind.BY_KEY), ("late", RouteKind.BY_KEY)]


@pytest.mark.parametrize("source", [[1], iter([1]), range(3), parse, Splittable(), {"a": 1}])
def test_a_source_is_whatever_gives_events(source: Any) -> None:
    assert Flow("example").source(source).what is source


def test_stages_come_in_the_order_of_their_events() -> None:
    flow, numbers = begun()
    last = numbers.map(parse, name="last")
    flow.connect(numbers.map(parse, name="between"), last)

    assert [stage.name for stage in flow.in_order()] == ["numbers", "between", "last"]


# ---- names


def test_what_has_no_good_name_is_called_by_kind_and_position() -> None:
    flow = Flow("example")
    stage: Any = flow.source([1])
    stage = stage.map(lambda event: event)
    stage = stage.map(functools.partial(parse))
    stage = stage.stateful(Watch)
    stage.sink(print)

    names = [stage.name for stage in flow.stages]
    assert names == ["source-1", "map-2", "map-3", "Watch", "print"]


def test_names_that_were_not_given_are_made_unique() -> None:
    flow, numbers = begun()
    numbers.map(parse).map(parse).map(parse).filter(is_known, name="map-6").map(lambda e: e)

    names = [stage.name for stage in flow.stages[1:]]
    assert names == ["parse", "parse-2", "parse-3", "map-6", "map-6-2"]


def test_a_given_name_must_be_new() -> None:
    _, numbers = begun()
    first = numbers.map(parse, name="same")

    with pytest.raises(FlowError) as caught:
        numbers.map(parse, name="same")

    assert caught.value.stage == "same"
    assert caught.value.place.startswith(f"{__file__}:")
    assert str(first.where) in str(caught.value)
    assert "name=" in str(caught.value)


def test_an_unknown_stage_is_answered_with_those_there_are() -> None:
    with pytest.raises(FlowError, match="no stage 'letters'; it has: numbers"):
        begun()[0].stage("letters")


# ---- what is refused at once


async def asynchronous(event: Any) -> Any:
    return event


def several(event: Any) -> Any:
    yield event


REFUSED: list[tuple[Callable[[Stage], Any], str]] = [
    (lambda stage: stage.map(3), "can't be called; pass a function"),  # type: ignore[arg-type]
    (lambda stage: stage.map(asynchronous), "is async; pass a plain function"),
    (lambda stage: stage.map(several), "is a generator; map wants a result, use flat_map"),
    (lambda stage: stage.filter(several), "is a generator"),
    (lambda stage: stage.stateful(Watch()), "pass a class with on_event"),  # type: ignore[arg-type]
    (lambda stage: stage.stateful(Splittable), "Splittable has no method on_event"),
    (lambda stage: stage.sink([]), r"is no sink; pass a function .* write\(events\)"),
    (lambda stage: stage.sink(Watch), "is a class; pass one of its objects"),
    (lambda stage: stage.sink(asynchronous), "is no sink"),
    (lambda stage: stage.map(parse, workers=0), "workers is 0; ask for 1 or more"),
    (lambda stage: stage.map(parse, workers=True), "workers is True"),
    (lambda stage: stage.map(parse, name="with space"), "can't name a stage; a name is"),
    (lambda stage: stage.flow.source("file.txt"), "is no source; pass an iterable"),
    (lambda stage: stage.flow.source(3), "is no source"),
    (lambda stage: stage.flow.source([1], workers=2), r"can't be split; .* part\(index, count\)"),
    (lambda stage: stage.flow.merge(), "got no stages"),
    (lambda stage: stage.flow.merge(stage, 3), "3 is no stage"),  # type: ignore[arg-type]
    (lambda stage: stage.flow.connect(stage, stage.balanced()), "is no stage"),  # type: ignore[arg-type]
    (lambda stage: stage.flow.connect(stage, stage), "is a source, .* nothing goes into one"),
]


@pytest.mark.parametrize(("attach", "message"), REFUSED)
def test_what_can_not_work_is_refused_at_once_and_leaves_nothing_behind(
    attach: Callable[[Stage], Any], message: str
) -> None:
    flow, numbers = begun()

    with pytest.raises(FlowError, match=message) as caught:
        attach(numbers)

    assert caught.value.place.startswith(f"{__file__}:")
    assert flow.stages == [numbers]
    assert flow.edges == []


def test_a_source_with_parts_may_have_several_workers() -> None:
    assert Flow("example").source(Splittable(), workers=3).workers == 3


@pytest.mark.parametrize(
    "attach",
    [
        lambda flow, sink: sink.map(parse),
        lambda flow, sink: sink.key_by(abs).map(parse),
        lambda flow, sink: flow.merge(sink),
        lambda flow, sink: flow.connect(sink, flow.stage("parse")),
    ],
)
def test_nothing_comes_out_of_a_sink(attach: Callable[[Flow, Stage], Any]) -> None:
    flow, numbers = begun()
    sink = numbers.map(parse).sink(print, name="out")

    with pytest.raises(FlowError, match="stage 'out': it is a sink") as caught:
        attach(flow, sink)

    assert str(sink.where) in str(caught.value)
    assert len(flow.edges) == 2


@pytest.mark.parametrize(
    "attach",
    [
        lambda flow, own, strange: flow.merge(own, strange),
        lambda flow, own, strange: flow.connect(strange, own),
        lambda flow, own, strange: flow.connect(own, strange),
    ],
)
def test_stages_of_two_flows_do_not_mix(attach: Callable[[Flow, Stage, Outlet], Any]) -> None:
    flow, numbers = begun()
    strange = Flow("other").source([1], name="strange").map(parse, name="strange-map")

    with pytest.raises(FlowError, match="belongs to flow 'other', not to 'example'"):
        attach(flow, numbers.map(parse), strange)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "explode"}, "on_error is 'explode'; say 'stop', 'skip', or pass a sink"),
        ({"on_error": 3}, "on_error is 3"),
        ({"instructions": ["flush"]}, "'flush' can't name an instruction"),
        ({"instructions": [""]}, "can't name an instruction"),
        ({"types": ["Reading"]}, "types has 'Reading'; pass classes"),
    ],
)
def test_wrong_options_of_a_flow_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FlowError, match=message) as caught:
        Flow("example", **options)

    assert caught.value.place.startswith(f"{__file__}:")


@pytest.mark.parametrize("name", ["", "two words", None, 3])
def test_a_flow_needs_a_name(name: Any) -> None:
    with pytest.raises(FlowError, match="can't name a flow; a name is"):
        Flow(name)


def test_bad_events_may_go_to_a_sink() -> None:
    assert Flow("example", on_error=print).on_error is print


# ---- what only the whole shows


def test_a_flow_needs_a_source() -> None:
    flow = Flow("empty")

    with pytest.raises(FlowError, match=r"flow 'empty' has no source; begin with flow.source"):
        flow.check()


@pytest.mark.parametrize("name", ["numbers", "parse"])
def test_a_stage_that_nothing_follows_is_found(name: str) -> None:
    flow, numbers = begun()
    if name == "parse":
        numbers.sink(print)
        numbers.map(parse)

    with pytest.raises(FlowError, match="nothing takes what comes out of it") as caught:
        flow.check()

    assert (caught.value.stage, caught.value.place) == (name, str(flow.stage(name).where))


def test_a_cycle_is_found_and_the_line_that_closed_it_is_named() -> None:
    flow, numbers = begun()
    first = numbers.map(parse, name="first")
    second = first.map(parse, name="second")
    second.sink(print)
    flow.connect(second.balanced(), first)

    with pytest.raises(FlowError, match="first → second → first") as caught:
        flow.check()

    assert caught.value.stage == "first"
    assert caught.value.place == str(flow.edges[-1].where)


def test_a_stage_that_feeds_itself_is_a_cycle() -> None:
    flow, numbers = begun()
    stage = numbers.map(parse)
    stage.sink(print)
    flow.connect(stage, stage)

    with pytest.raises(FlowError, match="parse → parse"):
        flow.check()


def test_state_is_kept_by_key_or_by_worker_but_not_both() -> None:
    flow, numbers = begun()
    flow.merge(numbers.key_by(abs), numbers.balanced()).stateful(Watch, name="watch").sink(print)

    with pytest.raises(
        FlowError, match="'numbers' balanced; let all come by key, or none"
    ) as error:
        flow.check()

    assert error.value.stage == "watch"


def test_a_stage_without_state_may_mix_its_inputs() -> None:
    flow, numbers = begun()
    flow.merge(numbers.key_by(abs), numbers).map(parse).sink(print)

    flow.check()


def test_a_route_and_an_edge_are_values_that_can_not_change() -> None:
    flow, numbers = begun()
    numbers.sink(print)

    for value, field in [(flow.edges[0], "number"), (LOCAL, "kind")]:
        assert isinstance(value, Edge | Route)
        with pytest.raises(AttributeError):
            setattr(value, field, 3)
