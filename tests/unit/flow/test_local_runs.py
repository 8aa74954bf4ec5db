"""Flows in one process: what comes out, in which order, and what becomes of bad events."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FlowError, FlowFailed
from shunter.flow.flow import Flow
from shunter.flow.graph.instructions import END_OF_STREAM, FLUSH, Instruction
from shunter.flow.runners.local import LocalRun, run

NODES = pytest.mark.parametrize("nodes", [1, 2, 5])


class Total:
    """Adds up, and says so at the end."""

    def __init__(self):
        self.total = 0

    def on_event(self, event):
        self.total += event

    def on_instruction(self, instruction):
        return self.total if instruction.name == END_OF_STREAM else None


class Running:
    """The number of each event among those of its key."""

    def __init__(self, key):
        self.key, self.count = key, 0

    def on_event(self, event):
        self.count += 1
        return (self.key, self.count, event)


class Echo:
    """Says everything twice, and each instruction by name."""

    def on_event(self, event):
        yield event
        yield event

    def on_instruction(self, instruction):
        yield instruction.name


def outcome(build, *, nodes=1, **options):
    """Run a flow that `build` makes of a source; return what came out."""
    flow = Flow("tried", **options)
    found = []
    build(flow, found)
    run(flow, nodes=nodes)
    return found


@NODES
def test_stages_in_a_row(nodes):
    def build(flow, found):
        stage = flow.source(range(10)).map(lambda n: n + 1).filter(lambda n: n % 2)
        stage.flat_map(lambda n: [n] * n).sink(found.append)

    assert outcome(build, nodes=nodes) == [n for n in (1, 3, 5, 7, 9) for _ in range(n)]


@NODES
def test_each_key_has_a_state_of_its_own_and_its_order(nodes):
    def build(flow, found):
        flow.source(range(1000)).key_by(lambda n: n % 7).stateful(Running).sink(found.append)

    by_key = defaultdict(list)
    for key, count, event in outcome(build, nodes=nodes):
        by_key[key].append((count, event))
    assert by_key == {key: list(enumerate(range(key, 1000, 7), 1)) for key in range(7)}


@NODES
def test_inputs_may_have_their_key_in_different_places(nodes):
    """As in a join: both sides come to the same state."""

    class Joined:
        def __init__(self):
            self.name = None
            self.orders = []

        def on_event(self, event):
            if "name" in event:
                self.name = event["name"]
            else:
                self.orders.append(event["order"])

        def on_instruction(self, instruction):
            return (self.name, sorted(self.orders))

    def build(flow, found):
        customers = flow.source([{"id": n, "name": f"c{n}"} for n in range(5)], name="customers")
        orders = flow.source([{"customer": n % 5, "order": n} for n in range(20)], name="orders")
        both = flow.merge(customers.key_by("id"), orders.key_by("customer"))
        both.stateful(Joined, any_order=True).sink(found.append)

    expected = [(f"c{n}", list(range(n, 20, 5))) for n in range(5)]
    assert sorted(outcome(build, nodes=nodes)) == expected


@NODES
def test_an_instance_for_each_worker_without_a_key(nodes):
    def build(flow, found):
        flow.source(range(100)).balanced().stateful(Total, any_order=True).sink(found.append)

    totals = outcome(build, nodes=nodes)
    assert sum(totals) == sum(range(100))
    assert len(totals) == nodes


@NODES
def test_to_all(nodes):
    def build(flow, found):
        flow.source(range(10)).to_all().map(lambda n: n).sink(found.append)

    assert Counter(outcome(build, nodes=nodes)) == Counter(dict.fromkeys(range(10), nodes))


@NODES
def test_several_outputs_each_get_everything(nodes):
    def build(flow, found):
        numbers = flow.source(range(10))
        numbers.map(lambda n: ("a", n)).sink(found.append)
        numbers.key_by(lambda n: n).map(lambda n: ("b", n)).sink(found.append)

    expected = [(side, n) for side in "ab" for n in range(10)]
    assert sorted(outcome(build, nodes=nodes)) == expected


@NODES
def test_several_sources_and_one_stage(nodes):
    def build(flow, found):
        parts = flow.merge(flow.source(range(10)), flow.source(range(10, 20), name="more"))
        parts.map(lambda n: n).sink(found.append)

    assert sorted(outcome(build, nodes=nodes)) == list(range(20))


@NODES
def test_an_instruction_comes_to_every_state_between_the_events_around_it(nodes):
    events = [1, 2, Instruction("day_ended"), 3, Instruction(FLUSH), 4]

    def build(flow, found):
        echoed = flow.source(events).balanced().map(lambda n: n).key_by(lambda n: 0)
        echoed.stateful(Echo, any_order=True).sink(found.append)

    assert outcome(build, nodes=nodes, instructions=["day_ended"]) == [
        1, 1, 2, 2, "day_ended", 3, 3, FLUSH, 4, 4, END_OF_STREAM,
    ]  # fmt: skip


def test_an_instruction_that_nobody_knows_is_refused():
    def build(flow, found):
        flow.source([Instruction("unheard_of")]).sink(found.append)

    with pytest.raises(FlowError, match=r"'unheard_of', which nobody knows; name it in Flow"):
        outcome(build)


@NODES
def test_nothing_at_all(nodes):
    def build(flow, found):
        flow.source([]).key_by(lambda n: n).stateful(Total).sink(found.append)

    assert outcome(build, nodes=nodes) == []


# ---- bad events


def inverse(n):
    return 12 // n


def test_a_bad_event_stops_the_flow_and_is_named_with_the_users_line():
    def build(flow, found):
        flow.source([3, 0, 4]).map(inverse).sink(found.append)

    with pytest.raises(FlowError) as caught:
        outcome(build)
    said = str(caught.value)
    assert "stage 'inverse'" in said
    assert "at the event 0" in said
    assert "return 12 // n" in said
    assert "shunter/flow" not in said


@NODES
def test_bad_events_are_skipped_and_counted(nodes):
    flow = Flow("tried", on_error="skip")
    found = []
    source = flow.source([0, 3, 0, 4, 0])
    source.map(inverse).sink(found.append)
    source.filter(lambda n: 1 / n).sink(found.append, name="filtered")
    source.flat_map(lambda n: [1, 1 / n]).sink(found.append, name="split")
    report = run(flow, nodes=nodes)

    assert Counter(found) == Counter([4, 3, 3, 4, 1, 1 / 3, 1, 1 / 4])
    assert report["inverse"].failed == 3
    assert [stage.failed for stage in report.stages].count(3) == 3


@NODES
def test_dead_letters_have_the_event_and_the_traceback(nodes):
    letters, found = [], []
    flow = Flow("tried", on_error=letters.append)
    numbers = flow.source([3, 0, 4, 0]).balanced().map(inverse)
    numbers.key_by(lambda n: n).stateful(Running, any_order=True).sink(found.append)
    run(flow, nodes=nodes)

    assert len(found) == 2
    assert [letter["event"] for letter in letters] == [0, 0]
    assert letters[0]["stage"] == "inverse"
    assert "ZeroDivisionError" in letters[0]["error"]
    assert "return 12 // n" in letters[0]["traceback"]


@NODES
def test_events_without_a_key_are_bad_ones(nodes):
    def build(flow, found):
        flow.source([{"k": 1}, {}]).key_by("k").stateful(Running).sink(found.append)

    assert outcome(build, nodes=nodes, on_error="skip") == [(1, 1, {"k": 1})]


def test_a_function_that_raises_stop_iteration_loses_nothing():
    def odd(n):
        if n == 5:
            raise StopIteration
        return n

    def build(flow, found):
        flow.source(range(10)).map(odd).sink(found.append)

    assert outcome(build, on_error="skip") == [0, 1, 2, 3, 4, 6, 7, 8, 9]


class Broken:
    """A source, a sink and a state that fail at the third call."""

    def __init__(self):
        self.calls = 0

    def _call(self):
        self.calls += 1
        if self.calls == 3:
            raise OSError("as the test wants")

    def open(self, saved):
        pass

    def read(self, limit):
        self._call()
        return [self.calls]

    def write(self, events):
        self._call()
        return 1

    def on_event(self, event):
        return event

    def on_instruction(self, instruction):
        raise OSError("as the test wants")

    def position(self):
        return 0

    checkpoint = position

    def close(self):
        pass


@pytest.mark.parametrize(
    ("build", "stage", "doing"),
    [
        (lambda flow: flow.source(Broken()).sink(print), "source-1", "in read"),
        (lambda flow: flow.source(range(9)).sink(Broken()), "sink-2", "in write"),
        (
            lambda flow: flow.source([1]).stateful(Broken).sink(print),
            "Broken",
            "in on_instruction",
        ),
    ],
    ids=["source", "sink", "state"],
)
def test_what_a_source_a_sink_or_a_state_raises_names_its_stage(build, stage, doing, capsys):
    flow = Flow("tried", on_error="skip")
    build(flow)

    with pytest.raises(FlowError) as caught:
        run(flow)
    said = str(caught.value)
    assert f"stage {stage!r}" in said
    assert f"OSError: as the test wants, {doing}" in said
    assert "test_local_runs.py" in said


# ---- push-back


class Slow:
    """A sink that takes one event in five calls."""

    def __init__(self):
        self.calls, self.found = 0, []

    def open(self, saved):
        pass

    def write(self, events):
        self.calls += 1
        if self.calls % 5:
            return 0
        self.found.append(events[0])
        return 1

    def checkpoint(self):
        return None

    def close(self):
        pass


def test_a_slow_sink_slows_down_the_source():
    flow = Flow("tried")
    read = 0

    def numbers():
        nonlocal read
        while read < 100_000:
            yield read
            read += 1

    sink = Slow()
    flow.source(numbers).key_by(lambda n: n % 3).map(lambda n: n).sink(sink)
    it = LocalRun(flow, nodes=1, limit=100)
    for _ in range(1000):
        it.step()

    assert 200 <= len(sink.found) <= 1000
    assert read < len(sink.found) + 100 + 2 * 2048


# ---- checkpoints


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_a_run_that_is_killed_anywhere_goes_on_from_its_checkpoint(kills, nodes, data):
    """The states, numbers and positions of a checkpoint are those of one moment."""
    events = [*range(300), Instruction("tick"), *range(300, 600)]
    saved = None
    found = []

    def build():
        flow = Flow("killed", instructions=["tick"])
        sink = Restorable(found)
        source = flow.source(Chunks(events))
        doubled = source.balanced().map(lambda n: n * 2).key_by(lambda n: n % 5)
        doubled.stateful(Running, any_order=True).sink(sink)
        return flow

    for steps in kills:
        kept = {}
        run = LocalRun(
            build(), nodes=nodes, limit=16, saved=saved,
            on_checkpoint=lambda worker, _, state, kept=kept: kept.update({worker: state}),
        )  # fmt: skip
        for _ in range(steps):
            run.step()
        run.checkpoint(1)
        for _ in range(data.draw(st.integers(0, 200))):
            run.step()
        if len(kept) == len(run.workers):
            saved = kept
    LocalRun(build(), nodes=nodes, limit=16, saved=saved).run()

    by_key = defaultdict(list)
    for sink in Restorable.published:
        for key, count, event in sink:
            by_key[key].append((count, event))
    expected = defaultdict(list)
    for n in range(600):
        expected[n * 2 % 5].append(n * 2)
    assert {k: [c for c, _ in v] for k, v in by_key.items()} == {
        key: list(range(1, len(v) + 1)) for key, v in expected.items()
    }
    assert {k: sorted(e for _, e in v) for k, v in by_key.items()} == expected
    Restorable.published.clear()


class Chunks:
    """A source with a position, which gives a few events at a time."""

    def __init__(self, items):
        self.items = items

    def open(self, position):
        self.at = position or 0

    def read(self, limit):
        if self.at == len(self.items):
            return None
        chunk = []
        for item in self.items[self.at : self.at + 7]:
            if isinstance(item, Instruction):
                chunk = chunk or [item]
                break
            chunk.append(item)
        self.at += len(chunk)
        return chunk

    def position(self):
        return self.at

    def close(self):
        pass


class Restorable:
    """A sink that goes back to where its checkpoint was."""

    published: ClassVar[list[list[object]]] = []

    def __init__(self, found):
        self.found = found

    def part(self, index, count):
        return Restorable(self.found)

    def open(self, saved):
        self.is_ready = False
        self.rows = list(saved or [])

    def write(self, events):
        self.is_ready = not self.is_ready
        if not self.is_ready:
            return 0
        self.rows += events[:3]
        return min(3, len(events))

    def checkpoint(self):
        return list(self.rows)

    def close(self):
        self.published.append(self.rows)


class FullDisk:
    """A sink that finds its disk full: as it writes, or as it publishes."""

    def __init__(self, where):
        self._where = where

    def check(self):
        return None

    def open(self, saved):
        return None

    def write(self, events):
        if self._where == "write":
            raise FlowError("out/: no space left on device; make room")
        return len(events)

    def checkpoint(self):
        return None

    def close(self):
        if self._where == "close":
            raise FlowError("out/: no space left on device; make room")

    def abandon(self):
        return None


@pytest.mark.parametrize("where", ["write", "close"])
def test_a_run_that_a_sink_ends_has_failed_and_the_flow_is_not_wrong(where):
    flow = Flow("full")
    flow.source([1, 2, 3]).sink(FullDisk(where))

    with pytest.raises(FlowFailed, match=r"out/: no space left on device; make room$"):
        LocalRun(flow).run()
