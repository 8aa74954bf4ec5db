"""Streams that go on with other nodes, with a changed flow, and what they write meanwhile."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shunter import Flow
from shunter.errors import FlowError, FlowFailed
from shunter.flow import Count, Window
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.stream.run import StreamRun, stream_on_spark
from shunter.flow.runners.spark.stream.states import StateFiles
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import Watermarked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

KEYS, AT_ONCE = 40, 100
LOT = 70
"""How many events a batch has before and behind a change: two of them leave some."""


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


class BatchDone(FlowFailed):
    """Ends a driver behind its first batch that counts, before there is another."""


def end_here(_: object) -> None:
    raise BatchDone("one batch is done")


def lines_in(folder: Path, name: str = "out") -> list[Any]:
    return [json.loads(line) for path in sorted(folder.glob(f"{name}*.jsonl"))
            for line in path.read_text().splitlines()]  # fmt: skip


def numbered_flow(folder: Path, events: int, *, stage: str = "numbered", keys: int = KEYS) -> Flow:
    flow = Flow("numbered")
    numbers = flow.source([{"key": n % keys} for n in range(events)], name="numbers")
    counted = numbers.key_by("key").stateful(Numbered, name=stage)
    counted.sink(WriteJsonLines(folder / "out.jsonl"), name="out")
    return flow


# ---- other numbers of nodes


def branched_flow(folder: Path) -> Flow:
    """Three kinds of state side by side: by key and by worker, windows, events that wait."""
    flow = Flow("branched")
    numbers = flow.source([{"key": n % KEYS, "at": 280 - n} for n in range(280)], name="numbers")
    counted = numbers.key_by("key").stateful(Numbered, name="numbered")
    running = counted.stateful(Running, name="running", any_order=True)
    running.sink(WriteJsonLines(folder / "counted.jsonl"), name="counted")
    ordered = numbers.key_by("key", order_by="at").stateful(Times, name="times")
    ordered.sink(WriteJsonLines(folder / "ordered.jsonl"), name="ordered", workers=1)
    timed = [{"key": n % 7, "at": n} for n in range(250)]
    events = flow.source(Watermarked(timed, time="at", lateness=40, every=10), name="events")
    windows = events.key_by("key").aggregate(window=Window(60, every=30, time="at"), n=Count())
    windows.sink(WriteJsonLines(folder / "windows.jsonl"), name="windows")
    return flow


@pytest.fixture(scope="module")
def on_other_nodes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stream has written that went on with other numbers of nodes, on one at last."""
    folder = tmp_path_factory.mktemp("branched")
    for nodes in (2, 3):
        with pytest.raises(BatchDone):
            stream_on_spark(
                branched_flow(folder), spark, checkpoints=folder / "kept", nodes=nodes,
                max_events=AT_ONCE, progress=end_here,
            )  # fmt: skip
    options: Any = {"checkpoints": folder / "kept", "nodes": 1, "max_events": AT_ONCE}
    stream_on_spark(branched_flow(folder), spark, **options)
    return folder


def test_states_go_to_other_workers(on_other_nodes: Path) -> None:
    told = lines_in(on_other_nodes, "counted")

    found = Counter((each["key"], each["count"]) for each in told)
    counts = [*range(1, 8), -7]
    assert found == Counter((key, count) for key in range(KEYS) for count in counts)
    assert [path.name for path in on_other_nodes.glob("counted*.jsonl")] == ["counted.jsonl"]
    seen = [each["seen"] for each in told]
    assert max(Counter(seen).values()) == 2
    assert min(seen) == 1


def test_windows_that_are_open_go_to_other_workers(on_other_nodes: Path, tmp_path: Path) -> None:
    branched_flow(tmp_path).run(on="local")

    found, wanted = (
        Counter(map(json.dumps, lines_in(folder, "windows")))
        for folder in (on_other_nodes, tmp_path)
    )
    assert wanted.total() > 50
    assert found == wanted


def test_events_that_wait_for_their_turn_go_to_other_workers(on_other_nodes: Path) -> None:
    by_key: dict[int, list[int]] = {}
    for each in lines_in(on_other_nodes, "ordered"):
        by_key.setdefault(each["key"], []).append(each["at"])

    assert sorted(by_key) == list(range(KEYS))
    assert sum(map(len, by_key.values())) == 280
    assert all(times == sorted(times) for times in by_key.values())


# ---- what is written, and flows that change


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


Changed = tuple[Path, list[int], list[StageReport], str]


@pytest.fixture(scope="module")
def changed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """A stream whose flow changes in the middle; before, a driver with the new flow dies early.

    Its folder, how many lines each of two batches had brought before, what the stages have done,
    and what was logged.
    """
    folder = tmp_path_factory.mktemp("changed")
    options: Any = {"checkpoints": folder / "kept", "nodes": 2, "max_events": LOT}
    before = []
    for _ in range(2):
        with pytest.raises(BatchDone):
            stream_on_spark(begun_flow(folder), spark, **options, progress=end_here)
        before.append(len(lines_in(folder)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StreamRun, "_stream", dies)
            with pytest.raises(Stopped):
                stream_on_spark(changed_flow(folder), spark, **options)
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        stages = stream_on_spark(changed_flow(folder), spark, **options)
    finally:
        logging.getLogger().removeHandler(handler)
    return folder, before, stages, heard.getvalue()


def dies(*_: object) -> None:
    raise Stopped


def test_a_changed_flow_goes_on_where_its_states_fit(changed: Changed) -> None:
    folder, before, stages, logged = changed

    counts = [*range(1, 6), -5]
    found = Counter((each["key"], each["count"]) for each in lines_in(folder))
    assert found == Counter((key, count) for key in [*range(KEYS), 1_000] for count in counts)
    more = [json.loads(line) for line in (folder / "more.jsonl").read_text().splitlines()]
    ends = Counter(each["count"] for each in more if each["count"] < 0)
    assert sum(-count * times for count, times in ends.items()) == 200 + 5 - before[-1]
    assert {stage.name for stage in stages} >= {"more", "real", "others"}
    for said in ("the states by key of 'less'", "beginning empty: the stage 'more'",
                 "read from its beginning: the source 'others'"):  # fmt: skip
        assert said in logged


def test_a_changed_flow_that_dies_before_its_first_commit_leaves_the_way_back(
    changed: Changed,
) -> None:
    folder, before, _, _ = changed

    less = [json.loads(line) for line in (folder / "less.jsonl").read_text().splitlines()]
    assert [each["count"] for each in less] == [*range(1, 2 * LOT + 1)]
    assert 0 < before[0] < before[1]


def test_a_flow_that_does_not_fit_its_states_is_refused(
    spark: SparkSession, changed: Changed, tmp_path: Path
) -> None:
    refused = Flow("changed")
    source = refused.source([1], name="another")
    source.map(str, name="numbers").sink(WriteJsonLines(tmp_path / "n.jsonl"), name="out")
    with pytest.raises(FlowError, match="was a source, and is a map"):
        stream_on_spark(refused, spark, checkpoints=changed[0] / "kept", nodes=2)
