"""Keyed stages: key by key, and within a budget of memory."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, ClassVar
from weakref import WeakSet

import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow.graph.aggregates import Count
from shunter.flow.graph.instructions import END_OF_STREAM, FLUSH, Instruction
from shunter.flow.graph.reach import instructing_source, works_key_by_key
from shunter.flow.graph.stages import Outlet, Stage
from shunter.flow.graph.windows import Window
from shunter.flow.runners.spark.batch.key_buckets import bucket_indexes, buckets_for
from shunter.flow.runners.spark.silence import is_silent
from shunter.flow.runtime.bounded_instances import BoundedKeyed, StoredState
from shunter.flow.runtime.key_runs import KeyByKey, KeyRuns
from shunter.flow.runtime.operators import Keyed

END = Instruction(END_OF_STREAM)


class MemoryStates:
    """A store that says how often it was used."""

    def __init__(self) -> None:
        self.states: dict[bytes, tuple[int, bytes]] = {}
        self.puts = self.hits = 0

    def put(self, states: Iterable[StoredState]) -> None:
        self.states |= {key: (place, state) for place, key, state in states}
        self.puts += 1

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        self.hits += key in self.states
        return self.states.get(key)

    def behind(self, place: int, limit: int) -> list[StoredState]:
        found = [(at, key, state) for key, (at, state) in self.states.items() if at > place]
        return sorted(found)[:limit]

    def clear(self) -> None:
        self.states.clear()


class Total:
    """A running sum, told with each event and at every instruction."""

    live: ClassVar[WeakSet[Total]] = WeakSet()

    def __init__(self, key: Any) -> None:
        self.key, self.sum = key, 0
        Total.live.add(self)

    def on_event(self, event: tuple[Any, int]) -> tuple[Any, int]:
        self.sum += event[1]
        return self.key, self.sum

    def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
        told = self.key, instruction.name, self.sum
        self.sum += 1_000_000  # to be seen later, if the state is kept
        return told


class Odd(Total):
    """Its attributes can't be stored."""

    def __init__(self, key: Any) -> None:
        super().__init__(key)
        self.seen: set[int] = set()


class Picky:
    def __init__(self, key: Any) -> None:
        if key == "none":
            raise ValueError("no such key")

    def on_event(self, event: tuple[Any, int]) -> Iterator[float]:
        yield 12 / event[1]

    def on_instruction(self, _: Instruction) -> Iterator[str]:
        yield "end"


def keyed_stage(what: Any) -> Stage:
    return Flow("keyed").source([]).key_by(0).stateful(what)


def events_of(keys: int, count: int) -> list[tuple[int, int]]:
    return [(number * 7 % keys, number) for number in range(count)]


def grouped(events: Iterable[tuple[Any, int]], *, is_last: bool = True) -> KeyRuns:
    groups: dict[Any, list[Any]] = {}
    events = list(events)
    for event in events:
        groups.setdefault(event[0], []).append(event)
    return KeyRuns(groups, len(events), is_last)


def outputs_at(operator: Keyed, instruction: Instruction) -> list[Any]:
    made = operator.instruct(instruction)
    return made if isinstance(made, list) else [each for part in made for each in part]


def never(event: Any, error: Exception) -> None:
    raise AssertionError(f"{event!r}: {error!r}")


def by_key(outputs: Iterable[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for output in outputs:
        found.setdefault(output[0], []).append(output)
    return found


def expected_of(stage: Stage, events: list[Any]) -> list[Any]:
    plain = Keyed(stage, never)
    return plain.process(events)[0] + outputs_at(plain, END)


def test_key_by_key_each_key_has_the_same_outputs_and_then_its_end() -> None:
    stage, events = keyed_stage(Total), events_of(50, 500)
    operator = KeyByKey(stage, never, MemoryStates, 1 << 20)

    found, needs = operator.process(grouped(events))

    assert by_key(found) == by_key(expected_of(stage, events))
    assert needs is not None
    assert needs() == [len(found)] * 500
    assert outputs_at(operator, END) == []


def test_an_object_is_dropped_before_the_next_key_has_one() -> None:
    most = 0

    class Watched(Total):
        def on_event(self, event: tuple[Any, int]) -> tuple[Any, int]:
            nonlocal most
            most = max(most, len(Total.live))
            return super().on_event(event)

    gc.collect()
    before = len(Total.live)

    KeyByKey(keyed_stage(Watched), never, MemoryStates, 1).process(grouped(events_of(50, 500)))

    assert most <= before + 2  # one is there until the name is taken by the next
    assert len(Total.live) <= before + 1


@pytest.mark.parametrize("most_bytes", [1, 1 << 20])
def test_a_bucket_in_parts_has_one_object_for_each_key(most_bytes: int) -> None:
    stage, events, store = keyed_stage(Total), events_of(90, 900), MemoryStates()
    operator = KeyByKey(stage, never, lambda: store, most_bytes)

    parts = [grouped(events[at : at + 300], is_last=at == 600) for at in (0, 300, 600)]
    found = [output for part in parts for output in operator.process(part)[0]]
    again, _ = operator.process(grouped(events))

    assert by_key(found) == by_key(again) == by_key(expected_of(stage, events))
    assert (store.hits > 0) == (most_bytes == 1)


def test_bad_events_are_left_out_whether_the_class_or_its_method_fails() -> None:
    bad: list[Any] = []
    operator = KeyByKey(
        keyed_stage(Picky), lambda event, _: bad.append(event), MemoryStates, 1 << 20
    )

    found, _ = operator.process(grouped([("a", 3), ("none", 1), ("a", 0), ("a", 4), ("none", 2)]))

    assert found == [4.0, 3.0, "end"]
    assert bad == [("a", 0), ("none", 1), ("none", 2)]


def test_what_an_object_raises_at_its_end_names_the_stage() -> None:
    class Failing(Total):
        def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
            raise KeyError("lost")

    operator = KeyByKey(keyed_stage(Failing), never, MemoryStates, 1 << 20)

    with pytest.raises(FlowError, match=r"'lost', in on_instruction") as caught:
        operator.process(grouped([(1, 1)]))
    assert caught.value.stage == "Failing"


@pytest.mark.parametrize("keys", [5, 400])
def test_states_beyond_the_budget_are_stored_and_results_stay_the_same(keys: int) -> None:
    stage, events, store = keyed_stage(Total), events_of(keys, 4_000), MemoryStates()
    plain = Keyed(stage, never)
    bounded = BoundedKeyed(stage, never, lambda: store, 1)

    for at in range(0, len(events), 500):
        some = events[at : at + 500]
        assert bounded.process(some)[0] == plain.process(some)[0]
        flush = Instruction(FLUSH, at)
        assert outputs_at(bounded, flush) == outputs_at(plain, flush)
    assert outputs_at(bounded, END) == outputs_at(plain, END)
    assert (store.hits > 1_000) == (keys == 400)


def test_few_objects_are_in_memory_beyond_the_budget() -> None:
    gc.collect()
    before = len(Total.live)
    bounded = BoundedKeyed(keyed_stage(Total), never, MemoryStates, 1)

    bounded.process(events_of(10_000, 10_000))

    assert len(Total.live) - before < 20


@pytest.mark.parametrize(
    ("what", "events"),
    [(Odd, events_of(100, 500)), (Total, [(frozenset({n % 50}), n) for n in range(300)])],
    ids=["state", "key"],
)
def test_what_cannot_be_stored_stays_in_memory(what: Any, events: list[Any]) -> None:
    stage, store = keyed_stage(what), MemoryStates()
    bounded = BoundedKeyed(stage, never, lambda: store, 1)

    found = bounded.process(events)[0] + outputs_at(bounded, END)

    assert found == expected_of(stage, events)
    assert not store.states


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "equal", [(1, 1.0, True, Number.ONE), ("a", "a"), ((1, "x"), (1.0, "x")), (2**70, 2**70)]
)
def test_equal_keys_are_in_one_bucket(equal: tuple[Any, ...]) -> None:
    alone = {int(bucket_indexes([key], 256)[0]) for key in equal}
    mixed = set(bucket_indexes([*equal, None], 256)[:-1].tolist())

    assert len(alone | mixed) == 1


@pytest.mark.parametrize("keys", [range(0, 256_000, 256), map(str, range(1_000))])
def test_keys_are_spread_over_buckets(keys: Iterable[Any]) -> None:
    indexes = bucket_indexes(list(keys), 64).tolist()

    assert set(indexes) <= set(range(64))
    assert max(map(indexes.count, range(64))) < 60


def test_a_node_has_several_buckets_on_however_many_nodes() -> None:
    assert [buckets_for(nodes) for nodes in (1, 2, 1_000)] == [256, 128, 8]


# ---- which stages may


def itself(event: Any) -> Any:
    return event


def told(outlet: Outlet) -> Stage:
    stage = outlet.key_by(0).stateful(Total, name="told")
    stage.map(itself).sink(print)
    return stage


def test_a_stage_behind_silent_sources_works_key_by_key() -> None:
    flow = Flow("silent")
    merged = flow.merge(flow.source([(1, 2)]).map(itself), flow.source(range(3)))

    assert works_key_by_key(told(merged), is_silent)


def test_an_instruction_from_any_source_upstream_forbids_it() -> None:
    flow = Flow("talking")
    talking = flow.source([1, Instruction(FLUSH)], name="talking").balanced().map(itself)
    stage = told(flow.merge(flow.source([1]), talking))

    assert not works_key_by_key(stage, is_silent)
    found = instructing_source(stage, is_silent)
    assert found is not None
    assert found.name == "talking"


@pytest.mark.parametrize(
    "follow",
    [
        lambda stage: stage.key_by(0).stateful(Total, name="other"),
        lambda stage: stage.map(itself).stateful(Picky, name="other"),
        lambda stage: stage.key_by(0).aggregate(window=Window(5, time="at"), count=Count()),
    ],
    ids=["keyed", "unkeyed", "windows"],
)
def test_a_state_behind_it_that_may_depend_on_the_order_forbids_it(follow: Any) -> None:
    stage = told(Flow("followed").source([]))
    follow(stage)

    assert not works_key_by_key(stage, is_silent)


class Columns:
    """Rows that stand for events; to look at more than the first one would make events of them."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> str:
        assert index == 0, "nobody looks at rows one by one"
        return "row"


def test_rows_that_go_on_as_columns_are_not_looked_at_one_by_one() -> None:
    taken: list[object] = []

    class Source:
        rows: ClassVar = [Columns()]

        def open(self, position: None) -> None:
            self.left = list(self.rows)

        def read(self, limit: int) -> Any:
            return self.left.pop() if self.left else None

        def position(self) -> None:
            return None

        def close(self) -> None:
            return

    class Sink:
        def open(self, saved: None) -> None:
            return

        def write(self, events: Any) -> int:
            taken.append(events)
            return len(events)

        def checkpoint(self) -> None:
            return

        def close(self) -> None:
            return

    flow = Flow("columns")
    flow.source(Source()).sink(Sink())
    flow.run("local")

    assert taken == Source.rows
