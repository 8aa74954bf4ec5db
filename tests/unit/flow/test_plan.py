"""Which workers there are, on which node, and who sends to whom."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.graph.keys import KeyPartitioner
from shunter.flow.graph.routes import RouteKind
from shunter.flow.graph.stages import Stage
from shunter.flow.runtime.plan import DEAD_LETTERS, FlowPlan, WorkerPlan, planned
from unit.flow.flow_strategies import Numbers, flows, same


class Sum:
    def on_event(self, event: Any) -> Any:
        return event


def begun(workers: int = 1) -> tuple[Flow, Stage]:
    flow = Flow("example")
    return flow, flow.source(Numbers(), name="numbers", workers=workers)


def shape(plan: FlowPlan) -> dict[str, list[str]]:
    """The stages of each worker."""
    return {worker.id: [stage.name for stage in worker.stages] for worker in plan.workers}


def links(plan: FlowPlan) -> dict[str, list[str]]:
    """To whom each worker sends, over all its edges."""
    return {
        worker.id: [receiver for edge in worker.outputs for receiver in edge.receivers]
        for worker in plan.workers
    }


# ---- fusing


def test_on_one_node_all_that_is_local_is_one_worker() -> None:
    flow, numbers = begun()
    numbers.map(same, name="a").filter(same, name="b").stateful(Sum).sink(print)

    plan = planned(flow, 1)

    assert shape(plan) == {"numbers.0": ["numbers", "a", "b", "Sum", "print"]}
    assert links(plan) == {"numbers.0": []}


def test_a_key_begins_a_new_chain_with_a_worker_on_each_node() -> None:
    flow, numbers = begun()
    numbers.map(same).key_by(abs).stateful(Sum, name="sum").sink(print)

    plan = planned(flow, 2)

    assert shape(plan) == {
        "sum.1": ["sum", "print"],
        "sum.0": ["sum", "print"],
        "numbers.0": ["numbers", "same"],
    }
    assert [worker.node for worker in plan.workers] == [1, 0, 0]
    (edge,) = plan.worker("numbers.0").outputs
    assert (edge.number, edge.sender) == (1, "numbers.0/1")
    assert edge.receivers == ("sum.0", "sum.1")
    assert plan.worker("sum.1").senders == ("numbers.0/1",)


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_says_nothing_of_workers_goes_along_with_its_source(nodes: int) -> None:
    flow, numbers = begun()
    numbers.map(same).sink(print)

    assert shape(planned(flow, nodes)) == {"numbers.0": ["numbers", "same", "print"]}


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_another_number_of_workers_breaks_a_chain(nodes: int) -> None:
    flow, numbers = begun()
    numbers.map(same, workers=3).map(same, name="next", workers=3).sink(print, workers=2)

    chains = set(map(tuple, shape(planned(flow, nodes)).values()))

    assert chains == {("numbers",), ("same", "next"), ("print",)}


@pytest.mark.parametrize("route", ["balanced", "to_all"])
def test_only_local_edges_are_fused(route: str) -> None:
    flow, numbers = begun()
    getattr(numbers, route)().sink(print)

    assert links(planned(flow, 1)) == {"print.0": [], "numbers.0": ["print.0"]}


def test_several_outputs_or_inputs_break_a_chain() -> None:
    flow, numbers = begun()
    one, two = numbers.map(same, name="one"), numbers.map(same, name="two")
    flow.merge(one, two).sink(print)

    plan = planned(flow, 1)

    assert links(plan) == {
        "print.0": [],
        "two.0": ["print.0"],
        "one.0": ["print.0"],
        "numbers.0": ["one.0", "two.0"],
    }
    assert plan.worker("print.0").senders == ("one.0/2", "two.0/3")


# ---- local edges


def test_equally_many_workers_send_to_the_same_index() -> None:
    flow, numbers = begun(workers=4)
    numbers.map(same, workers=4).sink(print, workers=4)
    numbers.sink(print, name="side", workers=4)

    plan = planned(flow, 2)

    assert links(plan)["numbers.3"] == ["same.3", "side.3"]
    assert plan.worker("same.3").node == 1


def test_few_senders_share_out_the_workers_of_their_node() -> None:
    flow, numbers = begun(workers=2)
    numbers.sink(print, workers=6)

    assert links(planned(flow, 1))["numbers.0"] == ["print.0", "print.2", "print.4"]
    assert links(planned(flow, 1))["numbers.1"] == ["print.1", "print.3", "print.5"]
    assert links(planned(flow, 2))["numbers.1"] == ["print.1", "print.3", "print.5"]


def test_many_senders_go_evenly_to_the_workers_of_their_node() -> None:
    flow, numbers = begun(workers=8)
    numbers.sink(print)

    plan = planned(flow, 2)

    assert Counter(receiver for to in links(plan).values() for receiver in to) == {
        "print.0": 4,
        "print.1": 4,
    }
    assert links(plan)["numbers.6"] == ["print.0"]


def test_without_a_worker_on_its_node_one_elsewhere_is_sent_to() -> None:
    flow, numbers = begun(workers=3)
    numbers.sink(print, workers=2)

    plan = planned(flow, 3)

    assert [links(plan)[f"numbers.{index}"] for index in range(3)] == [
        ["print.0"],
        ["print.1"],
        ["print.0"],
    ]


def test_a_worker_that_nothing_reaches_is_left_out() -> None:
    flow, numbers = begun()
    numbers.sink(print, name="one", workers=4)
    numbers.sink(print, name="two")

    assert set(shape(planned(flow, 2))) == {"numbers.0", "one.0", "one.2", "two.0"}


def test_workers_behind_one_that_is_left_out_are_left_out_too() -> None:
    flow, numbers = begun()
    numbers.sink(print)
    numbers.map(same, name="a").map(same, name="b", workers=2).sink(print, name="c", workers=6)

    ids = set(shape(planned(flow, 2)))

    assert ids == {"numbers.0", "print.0", "a.0", "c.0", "c.2", "c.4"}


def test_every_key_has_a_receiver_however_few_senders_there_are() -> None:
    flow, numbers = begun()
    numbers.key_by(abs).stateful(Sum, name="sum", workers=5).sink(print)

    assert {f"sum.{index}" for index in range(5)} <= set(shape(planned(flow, 3)))


# ---- asking a plan


def test_workers_are_listed_by_node() -> None:
    flow, numbers = begun()
    numbers.key_by(abs).map(same, workers=4).sink(print, workers=1)

    plan = planned(flow, 2)

    assert [worker.id for worker in plan.on_node(0)] == ["print.0", "same.2", "same.0", "numbers.0"]
    assert [worker.id for worker in plan.on_node(1)] == ["same.3", "same.1"]


def test_an_instruction_is_awaited_from_those_senders_that_carry_it() -> None:
    flow, one = begun()
    two = flow.source([1], name="two")
    flow.merge(one.balanced().map(same, name="a"), two).key_by(abs).map(same).sink(print)

    plan = planned(flow, 2)

    assert plan.origins("numbers.0") == {"numbers.0"}
    assert plan.origins("a.1") == {"numbers.0"}
    assert plan.origins("same.0") == {"numbers.0", "two.0"}
    assert plan.senders_from("same.0", "two.0") == {"two.0/2"}
    assert plan.senders_from("same.0", "numbers.0") == {"a.0/1", "a.1/1"}
    assert plan.senders_from("a.0", "two.0") == frozenset()


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_flow_needs_a_node(nodes: int) -> None:
    with pytest.raises(FlowError, match=f"can't run on {nodes} nodes"):
        planned(begun()[0], nodes)


def test_a_flow_that_is_wrong_is_not_planned() -> None:
    with pytest.raises(FlowError, match="nothing takes what comes out"):
        planned(begun()[0], 1)


def test_a_sink_for_bad_events_has_one_worker_that_all_send_to() -> None:
    flow = Flow("careful", on_error=print)
    flow.source([1], name="numbers").key_by(abs).map(same).sink(print)

    plan = planned(flow, 2)

    assert plan.workers[0].stages[0].what is print
    assert plan.workers[0].senders == tuple(
        worker.outputs[-1].sender for worker in reversed(plan.workers[1:])
    )
    assert all(worker.outputs[-1].number == DEAD_LETTERS for worker in plan.workers[1:])


# ---- any graph


@st.composite
def plans(draw: st.DrawFn) -> tuple[Flow, FlowPlan]:
    flow = draw(flows())
    return flow, planned(flow, draw(st.integers(1, 5)))


def workers_of(plan: FlowPlan, stage: Stage) -> list[WorkerPlan]:
    return [worker for worker in plan.workers if stage in worker.stages]


@given(plans())
def test_who_sends_and_who_receives_agree(made: tuple[Flow, FlowPlan]) -> None:
    _, plan = made
    sent = {
        (edge.sender, receiver)
        for worker in plan.workers
        for edge in worker.outputs
        for receiver in edge.receivers
    }
    received = [(sender, worker.id) for worker in plan.workers for sender in worker.senders]

    assert len({worker.id for worker in plan.workers}) == len(plan.workers)
    assert len(set(received)) == len(received)
    assert sent == set(received)


@given(plans())
def test_a_worker_comes_before_all_that_send_to_it(made: tuple[Flow, FlowPlan]) -> None:
    _, plan = made
    places = {worker.id: place for place, worker in enumerate(plan.workers)}

    for worker in plan.workers:
        for edge in worker.outputs:
            assert edge.receivers
            assert all(places[receiver] < places[worker.id] for receiver in edge.receivers)


@given(plans())
def test_each_stage_is_in_one_chain_whose_workers_are_all_alike(
    made: tuple[Flow, FlowPlan],
) -> None:
    flow, plan = made
    chains = {worker.stages for worker in plan.workers}

    assert Counter(stage for chain in chains for stage in chain) == Counter(flow.stages)
    for worker in plan.workers:
        siblings = [other.index for other in plan.workers if other.stages == worker.stages]
        assert min(siblings) == 0
        assert worker.count == max(siblings) + 1
        assert [edge.number for edge in worker.outputs] == [
            edge.number for edge in worker.stages[-1].outputs
        ]


@given(plans())
def test_a_worker_lives_on_the_node_of_its_index(made: tuple[Flow, FlowPlan]) -> None:
    _, plan = made

    assert all(worker.node == worker.index % plan.nodes for worker in plan.workers)
    assert [*plan.workers] == sorted(
        (worker for node in range(plan.nodes) for worker in plan.on_node(node)),
        key=plan.workers.index,
    )


@given(plans())
def test_only_sources_have_no_senders(made: tuple[Flow, FlowPlan]) -> None:
    _, plan = made

    for worker in plan.workers:
        assert worker.is_source == (not worker.senders)
        assert worker.id in plan.origins(worker.id) or not worker.is_source
        assert plan.origins(worker.id)


@given(plans())
def test_all_workers_that_were_asked_for_get_what_may_go_to_any(
    made: tuple[Flow, FlowPlan],
) -> None:
    flow, plan = made

    for edge in flow.edges:
        asked = edge.downstream.workers or plan.nodes
        if edge.route.kind is not RouteKind.LOCAL:
            for worker in workers_of(plan, edge.upstream):
                (out,) = [out for out in worker.outputs if out.number == edge.number]
                indexes = [plan.worker(receiver).index for receiver in out.receivers]
                assert indexes == list(range(asked))


@given(plans(), st.integers())
def test_a_key_has_the_same_receiver_from_all_senders(
    made: tuple[Flow, FlowPlan], key: int
) -> None:
    _, plan = made
    homes: dict[str, set[str]] = {}

    for worker in plan.workers:
        for edge in worker.outputs:
            if edge.route.kind is RouteKind.BY_KEY:
                home = edge.receivers[KeyPartitioner(len(edge.receivers)).index(key)]
                homes.setdefault(home.rpartition(".")[0], set()).add(home)

    assert all(len(home) == 1 for home in homes.values())


@given(plans())
def test_a_local_edge_leaves_the_node_only_where_it_must(made: tuple[Flow, FlowPlan]) -> None:
    flow, plan = made

    for edge in flow.edges:
        if edge.route.kind is not RouteKind.LOCAL:
            continue
        asked = edge.downstream.workers or plan.nodes
        for worker in workers_of(plan, edge.upstream):
            outs = [out for out in worker.outputs if out.number == edge.number]
            for receiver in (receiver for out in outs for receiver in out.receivers):
                has_one = worker.node < asked
                assert (plan.worker(receiver).node == worker.node) or not has_one


@given(plans())
def test_instructions_of_a_source_come_from_the_senders_on_its_way(
    made: tuple[Flow, FlowPlan],
) -> None:
    _, plan = made

    for worker in plan.workers:
        carried = [plan.senders_from(worker.id, origin) for origin in plan.origins(worker.id)]
        assert all(carried) or worker.is_source
        assert frozenset().union(*carried) == frozenset(worker.senders)


@given(flows(), st.integers(1, 5))
def test_the_same_flow_has_the_same_plan(flow: Flow, nodes: int) -> None:
    assert planned(flow, nodes) == planned(flow, nodes)
