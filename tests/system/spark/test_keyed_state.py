"""Keyed state on Spark: key by key where that is allowed, else within bounds; always the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import Flow
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.spark.batch import keyed_chunks, keyed_plan
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks import Collect
from shunter.flow.sources import ParquetRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS, EVENTS = 3_000, 12_000


class Reading(msgspec.Struct):
    key: str
    number: int


class Running:
    """Tells a running sum, and at the end how many of its class are there, with itself."""

    live = 0

    def __init__(self, key: Any) -> None:
        Running.live += 1
        self.key, self.sum = key, 0

    def __del__(self) -> None:
        Running.live -= 1

    def on_event(self, event: Any) -> tuple[Any, str, int]:
        number = event.number if isinstance(event, Reading) else event["number"]
        self.sum += number
        if number == 13:
            raise ValueError("unlucky")
        return self.key, "sum", self.sum

    def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
        return self.key, instruction.name, self.sum


class Live(Running):
    def on_event(self, event: Any) -> None:
        super().on_event(event)

    def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
        return self.key, "live", Running.live


class LastKey:
    """Tells of two keys that came one after the other: the order across keys is seen by it."""

    def __init__(self) -> None:
        self.last: Any = None

    def on_event(self, told: tuple[Any, str, int]) -> tuple[Any, Any]:
        before, self.last = self.last, told[0]
        return before, told[0]


def readings() -> list[dict[str, Any]]:
    return [{"key": f"k{n * 7 % KEYS}", "number": n} for n in range(EVENTS)]


def as_typed(event: dict[str, Any]) -> Reading:
    return Reading(event["key"], event["number"])


def by_key(outputs: Iterable[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    found = defaultdict(list)
    for output in outputs:
        found[output[0]].append(output)
    return found


def counts(stages: list[StageReport]) -> list[tuple[str, int, int, int]]:
    return [(stage.name, stage.taken, stage.given, stage.failed) for stage in stages]


Build = Callable[[Flow, Collect], None]


def both(build: Build, spark: SparkSession, **options: Any) -> tuple[list[Any], list[Any]]:
    """Run a flow in this process and on Spark; check that its counts agree."""
    here, there = Collect(), Collect()
    told = []
    for out in (here, there):
        flow = Flow("keyed", **options)
        build(flow, out)
        if out is here:
            told.append(LocalRun(flow, nodes=2).run().stages)
        else:
            told.append(run_on_spark(flow, spark, nodes=2))
    assert counts(told[0]) == counts(told[1])
    return here.events, there.events


def dicts(flow: Flow, out: Collect) -> None:
    flow.source(readings()).key_by("key").stateful(Running).sink(out)


def typed(flow: Flow, out: Collect) -> None:
    mapped = flow.source(readings()).map(as_typed)
    mapped.key_by(lambda reading: reading.key).stateful(Running).sink(out)


def merged(flow: Flow, out: Collect) -> None:
    low = flow.source(readings()[:100], name="low").key_by("key")
    high = flow.source(readings()[100:], name="high").map(as_typed).key_by("key")
    flow.merge(low, high).stateful(Running, any_order=True).sink(out)


@pytest.mark.parametrize("build", [dicts, typed])
def test_each_key_has_the_same_outputs_in_the_same_order(build: Build, spark: SparkSession) -> None:
    expected, found = both(build, spark, on_error="skip")

    assert len(found) == EVENTS - 1 + KEYS
    assert by_key(found) == by_key(expected)


def test_several_inputs_meet_in_the_object_of_their_key(spark: SparkSession) -> None:
    expected, found = both(merged, spark, on_error="skip")

    ends = [{key: told[-1] for key, told in by_key(events).items()} for events in (expected, found)]
    assert ends[0] == ends[1]


def test_one_hot_key_comes_in_parts(spark: SparkSession) -> None:
    def hot(flow: Flow, out: Collect) -> None:
        text = "x" * 400
        events = [{"key": "hot", "number": n, "text": text} for n in range(14, EVENTS)]
        assert len(text) * len(events) > 2 * keyed_chunks.PART_BYTES
        flow.source(events).key_by("key").stateful(Running).sink(out)

    expected, found = both(hot, spark)

    assert by_key(found) == by_key(expected)


@pytest.mark.parametrize(("kind", "is_encoded"), [(None, False), (Reading, True)])
def test_rows_of_files_and_dataframes_go_as_columns_with_the_same_results(
    kind: type | None, is_encoded: bool, spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.Table.from_pylist(readings())
    if is_encoded:
        table = table.set_column(0, "key", table["key"].dictionary_encode())
    for part in range(3):
        rows = table.slice(part * EVENTS // 3, EVENTS // 3)
        pq.write_table(rows, tmp_path / f"{part}.parquet", row_group_size=1_000)

    def from_files(flow: Flow, out: Collect) -> None:
        source = flow.source(ParquetRows(tmp_path, type=kind))
        source.key_by("key").stateful(Running).sink(out)

    expected, found = both(from_files, spark, on_error="skip")
    assert by_key(found) == by_key(expected)

    framed, flow = Collect(), Flow("framed", on_error="skip")
    path = str(tmp_path / "0.parquet")
    source = flow.source(DataFrameSource(lambda spark: spark.read.parquet(path), type=kind))
    source.key_by("key").stateful(Running).sink(framed)
    run_on_spark(flow, spark, nodes=2)
    assert len(framed.events) == EVENTS // 3 - 1 + len({r["key"] for r in readings()[:4_000]})


def test_an_object_is_gone_when_the_next_key_comes(spark: SparkSession) -> None:
    out, flow = Collect(), Flow("live", on_error="skip")
    flow.source(readings()).key_by("key").stateful(Live).sink(out)

    run_on_spark(flow, spark, nodes=2)

    assert len(out.events) == KEYS
    assert max(live for _, _, live in out.events) <= 2


def test_with_instructions_states_go_to_disk_beyond_the_budget_and_results_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted(Running):
        """Writes down how many there are at most."""

        def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
            if instruction.name == FLUSH:
                with (tmp_path / "live").open("a") as file:
                    file.write(f"{Running.live}\n")
            return super().on_instruction(instruction)

    def flushed(flow: Flow, out: Collect) -> None:
        events = readings()
        halves = [*events[:6_000], Instruction(FLUSH), *events[6_000:]]
        flow.source(halves).key_by("key").stateful(Noted).sink(out)

    here, flow = Collect(), Flow("flushed", on_error="skip")
    flushed(flow, here)
    LocalRun(flow, nodes=2).run()
    (tmp_path / "live").unlink()
    monkeypatch.setattr(keyed_plan, "STATE_BYTES", 1)
    there, flow = Collect(), Flow("flushed", on_error="skip")
    flushed(flow, there)
    run_on_spark(flow, spark, nodes=2)

    assert by_key(there.events) == by_key(here.events)
    assert 0 < max(map(int, (tmp_path / "live").read_text().split())) < 50


def test_the_order_across_keys_is_kept_for_a_state_behind(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_plan, "STATE_BYTES", 1)

    def followed(flow: Flow, out: Collect) -> None:
        told = flow.source(readings()).key_by("key").stateful(Running, workers=1)
        told.stateful(LastKey, workers=1).sink(out, workers=1)

    expected, found = both(followed, spark, on_error="skip")

    assert found == expected


def test_distinct_drops_what_came_before(spark: SparkSession) -> None:
    def once(flow: Flow, out: Collect) -> None:
        again = [each for event in readings()[:3_000] for each in (event, event)]
        flow.source(again).distinct(sender="key", sequence="number").sink(out)

    expected, found = both(once, spark)

    assert len(found) == 3_000
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_bad_events_and_keys_go_to_the_dead_letters(spark: SparkSession) -> None:
    letters: list[list[Any]] = [[], []]
    outs = [Collect(), Collect()]
    for dead, out in zip(letters, outs, strict=True):
        flow = Flow("letters", on_error=Collect(dead))
        events = [*readings()[:100], {"number": 1}, {"key": [1], "number": 2}]
        flow.source(events).key_by("key").stateful(Running).sink(out)
        if dead is letters[0]:
            LocalRun(flow, nodes=2).run()
        else:
            run_on_spark(flow, spark, nodes=2)

    assert by_key(outs[0].events) == by_key(outs[1].events)
    found = [sorted((repr(each["event"]), each["stage"]) for each in dead) for dead in letters]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def generator(flow: Flow, out: Collect) -> None:
    class Echo:
        def on_event(self, event: Any) -> Iterator[Any]:
            yield event["key"], event["number"]
            yield event["key"], -event["number"]

        def on_instruction(self, _: Instruction) -> Iterator[Any]:
            yield "end", 0

    flow.source(readings()[:1_000]).key_by("key").stateful(Echo).sink(out)


def test_a_class_may_yield(spark: SparkSession) -> None:
    expected, found = both(generator, spark)

    assert by_key(found) == by_key(expected)
