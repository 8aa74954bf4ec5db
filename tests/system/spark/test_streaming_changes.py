"""Streams that go on with other nodes, with a changed flow, and what they write meanwhile."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow import Count, Window
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.stream.run import StreamRun, stream_on_spark
from shunter.flow.runners.spark.stream.states import StateFiles
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import Watermarked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS, AT_ONCE = 40, 100


class Numbered:
    """Numbers the events of its key, and says so at the end."""

    def __init__(self, key: Any) -> None:
        self.key, self.count = key, 0

    def on_event(self, _: Any) -> dict[str, Any]:
        self.count += 1
        return {"key": self.key, "count": self.count}

    def on_instruction(self, instruction: Instruction) -> dict[str, Any] | None:
        return (
            {"key": self.key, "count": -self.count} if instruction.name == END_OF_STREAM else None
        )


class Times:
    """Passes on what it gets."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Any) -> Any:
        self.count += 1
        return event


class Running:
    """One for each worker."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, event: Any) -> Any:
        self.seen += 1
        return {**event, "seen": self.seen}


class BatchDone(FlowError):
    """Ends a driver behind its first batch that counts, before there is another."""


def end_here(_: object) -> None:
    raise BatchDone("one batch is done")


def lines_in(folder: Path) -> list[Any]:
    return [json.loads(line) for path in sorted(folder.glob("out*.jsonl"))
            for line in path.read_text().splitlines()]  # fmt: skip


def numbered_flow(folder: Path, events: int, *, stage: str = "numbered", keys: int = KEYS) -> Flow:
    flow = Flow("numbered")
    numbers = flow.source([{"key": n % keys} for n in range(events)], name="numbers")
    counted = numbers.key_by("key").stateful(Numbered, name=stage)
    counted.sink(WriteJsonLines(folder / "out.jsonl"), name="out")
    return flow


def test_a_stream_goes_on_with_other_numbers_of_nodes(spark: SparkSession, tmp_path: Path) -> None:
    def flow() -> Flow:
        made = Flow("numbered")
        numbers = made.source([{"key": n % KEYS} for n in range(400)], name="numbers")
        counted = numbers.key_by("key").stateful(Numbered, name="numbered")
        running = counted.stateful(Running, name="running", any_order=True)
        running.sink(WriteJsonLines(tmp_path / "out.jsonl"), name="out")
        return made

    for nodes in (2, 3):
        with pytest.raises(BatchDone):
            stream_on_spark(
                flow(), spark, checkpoints=tmp_path / "kept", nodes=nodes, max_events=AT_ONCE,
                progress=end_here,
            )  # fmt: skip
    stream_on_spark(flow(), spark, checkpoints=tmp_path / "kept", nodes=1, max_events=AT_ONCE)

    found = Counter((each["key"], each["count"]) for each in lines_in(tmp_path))
    each = [*range(1, 11), -10]
    assert found == Counter((key, count) for key in range(KEYS) for count in each)
    assert [path.name for path in tmp_path.glob("out*.jsonl")] == ["out.jsonl"]
    seen = [each["seen"] for each in lines_in(tmp_path)]
    assert max(Counter(seen).values()) == 2
    assert min(seen) == 1


def test_only_keys_that_were_touched_are_written(spark: SparkSession, tmp_path: Path) -> None:
    def records() -> dict[str, int]:
        files, found = StateFiles(str(tmp_path / "kept")), {}
        for path in (tmp_path / "kept" / "states").iterdir():
            tables = files.footer(path.name).tables
            found[path.name] = sum(table.count for table in tables)
        return found

    options: Any = {"checkpoints": tmp_path / "kept", "nodes": 2}
    flow = numbered_flow(tmp_path, 10_050, keys=10_000)
    with pytest.raises(BatchDone):
        stream_on_spark(flow, spark, max_events=10_000, **options, progress=end_here)
    filled = records()
    assert sum(filled.values()) == 10_000

    with pytest.raises(BatchDone):
        stream_on_spark(flow, spark, max_events=30, **options, progress=end_here)

    after = records()
    assert filled.items() <= after.items()
    assert sum(after.values()) == 10_030


def begun_flow(folder: Path) -> Flow:
    made = Flow("changed")
    gone = made.source([{"key": -1}] * 500, name="gone")
    numbers = made.source([{"key": n % KEYS} for n in range(200)], name="numbers")
    numbered = numbers.key_by("key").stateful(Numbered, name="numbered")
    numbered.sink(WriteJsonLines(folder / "out.jsonl"), name="out", workers=1)
    less = gone.key_by("key").stateful(Numbered, name="less")
    less.sink(WriteJsonLines(folder / "less.jsonl"), name="less_out", workers=1)
    return made


def changed_flow(folder: Path) -> Flow:
    """One source more and one less, another function, one state more and one less."""
    made = Flow("changed")
    numbers = made.source([{"key": n % KEYS} for n in range(200)], name="numbers")
    others = made.source([{"key": 1_000}] * 5, name="others")
    real = made.merge(numbers, others).filter(lambda event: True, name="real")
    real.key_by("key").stateful(Numbered, name="numbered", any_order=True).sink(
        WriteJsonLines(folder / "out.jsonl"), name="out", workers=1
    )
    real.key_by("key").stateful(Numbered, name="more", any_order=True).sink(
        WriteJsonLines(folder / "more.jsonl"), name="more_out", workers=1
    )
    return made


def test_a_changed_flow_goes_on_where_its_states_fit(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: Any = {"checkpoints": tmp_path / "kept", "nodes": 2, "max_events": AT_ONCE}
    with pytest.raises(BatchDone):
        stream_on_spark(begun_flow(tmp_path), spark, **options, progress=end_here)
    before = len(lines_in(tmp_path))
    with caplog.at_level(logging.WARNING):
        stages = stream_on_spark(changed_flow(tmp_path), spark, **options)

    counts = [*range(1, 6), -5]
    found = Counter((each["key"], each["count"]) for each in lines_in(tmp_path))
    assert found == Counter((key, count) for key in [*range(KEYS), 1_000] for count in counts)
    more = [json.loads(line) for line in (tmp_path / "more.jsonl").read_text().splitlines()]
    ends = Counter(each["count"] for each in more if each["count"] < 0)
    assert sum(-count * times for count, times in ends.items()) == 200 + 5 - before
    assert {stage.name for stage in stages} >= {"more", "real", "others"}
    for said in ("the states by key of 'less'", "beginning empty: the stage 'more'",
                 "read from its beginning: the source 'others'"):  # fmt: skip
        assert said in caplog.text

    refused = Flow("changed")
    source = refused.source([1], name="another")
    source.map(str, name="numbers").sink(WriteJsonLines(tmp_path / "n.jsonl"), name="out")
    with pytest.raises(FlowError, match="was a source, and is a map"):
        stream_on_spark(refused, spark, **options)


def test_a_changed_flow_that_dies_before_its_first_commit_leaves_the_way_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Stopped

    options: Any = {"checkpoints": tmp_path / "kept", "nodes": 2, "max_events": 300}
    with pytest.raises(BatchDone):
        stream_on_spark(begun_flow(tmp_path), spark, **options, progress=end_here)
    with monkeypatch.context() as patch:
        patch.setattr(StreamRun, "_stream", dies)
        with pytest.raises(Stopped):
            stream_on_spark(changed_flow(tmp_path), spark, **options)

    stream_on_spark(begun_flow(tmp_path), spark, **options)

    less = [json.loads(line) for line in (tmp_path / "less.jsonl").read_text().splitlines()]
    assert [each["count"] for each in less] == [*range(1, 501), -500]
    counts = [*range(1, 6), -5]
    found = Counter((each["key"], each["count"]) for each in lines_in(tmp_path))
    assert found == Counter((key, count) for key in range(KEYS) for count in counts)


def test_windows_that_are_open_go_to_other_workers(spark: SparkSession, tmp_path: Path) -> None:
    def flow(folder: Path) -> Flow:
        made = Flow("windows")
        events = [{"key": n % 7, "at": n} for n in range(400)]
        source = made.source(Watermarked(events, time="at", lateness=40, every=10), name="events")
        counted = source.key_by("key").aggregate(window=Window(60, every=30, time="at"), n=Count())
        counted.sink(WriteJsonLines(folder / "out.jsonl"), name="out")
        return made

    expected = tmp_path / "here"
    expected.mkdir()
    flow(expected).run(on="local")
    for nodes in (2, 3):
        with pytest.raises(BatchDone):
            stream_on_spark(
                flow(tmp_path), spark, checkpoints=tmp_path / "kept", nodes=nodes, max_events=100,
                progress=end_here,
            )  # fmt: skip
    stream_on_spark(flow(tmp_path), spark, checkpoints=tmp_path / "kept", nodes=1)

    found, wanted = (Counter(map(json.dumps, lines_in(each))) for each in (tmp_path, expected))
    assert wanted.total() > 50
    assert found == wanted


def test_events_that_wait_for_their_turn_go_to_other_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    def flow() -> Flow:
        made = Flow("ordered")
        events = [{"key": n % 11, "at": 300 - n} for n in range(300)]
        numbers = made.source(events, name="events")
        counted = numbers.key_by("key", order_by="at").stateful(Times, name="times")
        counted.sink(WriteJsonLines(tmp_path / "out.jsonl"), name="out", workers=1)
        return made

    for nodes in (2, 3):
        with pytest.raises(BatchDone):
            stream_on_spark(
                flow(), spark, checkpoints=tmp_path / "kept", nodes=nodes, max_events=70,
                progress=end_here,
            )  # fmt: skip
    stream_on_spark(flow(), spark, checkpoints=tmp_path / "kept", nodes=1)

    by_key: dict[int, list[int]] = {}
    for each in lines_in(tmp_path):
        by_key.setdefault(each["key"], []).append(each["at"])
    assert sorted(by_key) == list(range(11))
    assert sum(map(len, by_key.values())) == 300
    assert all(times == sorted(times) for times in by_key.values())
