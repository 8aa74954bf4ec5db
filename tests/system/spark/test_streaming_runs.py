"""Streams on Spark: stopped and gone on with, taken over, on a full disk, with Spark's readers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from shunter import Flow
from shunter.cli.flows import app
from shunter.errors import FlowError
from shunter.flow.graph.instructions import END_OF_STREAM, Instruction
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.stream.ledger import Ledger
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks import Collect, WriteJsonLines
from shunter.flow.sources import Ticks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 60.0


class Numbered:
    """Numbers the events of its key, and says so at the end."""

    def __init__(self, key: Any) -> None:
        self.key, self.count = key, 0

    def on_event(self, _: Any) -> dict[str, Any]:
        self.count += 1
        return {"key": self.key, "count": self.count}

    def on_instruction(self, instruction: Instruction) -> dict[str, Any] | None:
        if instruction.name != END_OF_STREAM:
            return None
        return {"key": self.key, "count": -self.count}


def when_there_are(lines: int, path: Path, *, within: float = SECONDS) -> Callable[[], bool]:
    """Say when to stop: once a file has so many lines."""
    until = time.monotonic() + within

    def should_stop() -> bool:
        assert time.monotonic() < until, "nothing came"
        return path.exists() and len(path.read_bytes().splitlines()) >= lines

    return should_stop


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sparks_own_readers_stream_into_keyed_states_that_survive(
    spark: SparkSession, tmp_path: Path
) -> None:
    arriving, out = tmp_path / "arriving", tmp_path / "out.jsonl"
    arriving.mkdir()

    def flow() -> Flow:
        made = Flow("arriving")
        source = DataFrameSource(
            lambda s: s.readStream.schema("key string, n long").json(str(arriving))
        )
        rows = made.source(source, name="rows").filter(lambda row: row["n"] != 3)
        rows.key_by("key").stateful(Numbered).sink(WriteJsonLines(out), workers=1)
        return made

    for lot, awaited in ((range(6), 5), (range(6, 9), 8)):
        rows = [json.dumps({"key": "ab"[n % 2], "n": n}) for n in lot]
        (arriving / f"{lot.start}.json").write_text("\n".join(rows))
        with pytest.raises(Stopped):
            stream_on_spark(
                flow(), spark, checkpoints=tmp_path / "checkpoint", nodes=2,
                should_stop=when_there_are(awaited, out),
            )  # fmt: skip

    counted = [(each["key"], each["count"]) for each in lines_of(out)]
    assert sorted(counted) == [("a", n) for n in range(1, 6)] + [("b", n) for n in range(1, 4)]


def test_sources_of_sparks_own_say_how_far_they_are_behind_or_that_they_do_not_tell(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Beside a source of ours, of which Spark can't know it. Bad events are told with an error."""
    arriving = tmp_path / "arriving"
    told: dict[str, StageReport] = {}
    arriving.mkdir()
    (arriving / "1.json").write_text('{"n": 1}\n{"n": 0}\n')
    flow = Flow("behind", on_error="skip")
    clock = flow.source(
        DataFrameSource(lambda s: s.readStream.format("rate").load().selectExpr("value AS n")),
        name="clock",
    )
    ticks = flow.source(Ticks(0.05), name="ticks").map(lambda tick: {"n": tick["tick"]})
    files = flow.source(
        DataFrameSource(lambda s: s.readStream.schema("n long").json(str(arriving))), name="files"
    )
    kept = files.map(lambda row: 1 // row["n"], name="inverse")
    flow.merge(kept, ticks, clock).sink(Collect())
    until = time.monotonic() + SECONDS

    def hear(stages: Sequence[StageReport]) -> None:
        told.update({stage.name: stage for stage in stages})

    def should_stop() -> bool:
        assert time.monotonic() < until, told
        return "clock" in told and told["clock"].source_lag is not None

    with pytest.raises(Stopped):
        stream_on_spark(
            flow, spark, checkpoints=tmp_path / "checkpoint", nodes=1, progress=hear,
            should_stop=should_stop,
        )  # fmt: skip

    assert str(told["clock"].source_lag) == "0 offsets"
    assert str(told["files"].source_lag) == "not told by this source"
    assert told["ticks"].source_lag is None
    assert told["inverse"].last_error.startswith("ZeroDivisionError: ")


def test_a_driver_that_was_taken_over_ends_and_publishes_nothing_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, folder = tmp_path / "out.jsonl", tmp_path / "checkpoint"
    flow = Flow("ticking")
    flow.source(Ticks(0.01)).map(lambda tick: tick["tick"]).sink(WriteJsonLines(out))
    seen: list[int] = []

    def take_over_after_a_batch(_: object) -> None:
        if not seen and out.exists():
            seen.append(len(lines_of(out)))
            Ledger(folder, "another driver").take_over()

    with pytest.raises(FlowError, match="the stream was taken over by another driver"):
        stream_on_spark(flow, spark, checkpoints=folder, nodes=1, progress=take_over_after_a_batch)

    assert len(lines_of(out)) == seen[0]
    assert lines_of(out) == list(range(1, seen[0] + 1))


@pytest.mark.parametrize("is_behind_a_shuffle", [False, True])
def test_a_stream_stops_soon_in_the_middle_of_a_batch(
    is_behind_a_shuffle: bool, spark: SparkSession, tmp_path: Path
) -> None:
    begun, out = tmp_path / "begun", tmp_path / "out.jsonl"

    def slow(number: int) -> int:
        begun.touch()
        time.sleep(60)
        return number

    flow = Flow("slow")
    numbers = flow.source(range(5))
    slowed = numbers.balanced().map(slow) if is_behind_a_shuffle else numbers.map(slow)
    slowed.sink(WriteJsonLines(out), workers=1)
    asked: list[float] = []

    def should_stop() -> bool:
        if begun.exists() and not asked:
            asked.append(time.monotonic())
        return bool(asked)

    with pytest.raises(Stopped):
        stream_on_spark(
            flow, spark, checkpoints=tmp_path / "checkpoint", nodes=1, should_stop=should_stop
        )

    assert time.monotonic() - asked[0] < 30
    assert not out.exists()
    assert not spark.streams.active


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for very little."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_whole_batches_alone_are_seen(
    spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    out = small_disk / "out.jsonl"
    flow = Flow("growing")
    flow.source(range(40)).map(lambda n: f"{n:04d}" * 1000).sink(WriteJsonLines(out))

    with pytest.raises(FlowError, match=r"can't be written \(No space left on device\)"):
        stream_on_spark(flow, spark, checkpoints=tmp_path / "checkpoint", nodes=1, max_events=7)

    seen = [line[:4] for line in lines_of(out)]
    assert seen == [f"{n:04d}" for n in range(len(seen))]
    assert len(seen) % 7 == 0 < len(seen) < 40
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    stream_on_spark(flow, spark, checkpoints=tmp_path / "checkpoint", max_events=20)
    assert [line[:4] for line in lines_of(out)] == [f"{n:04d}" for n in range(40)]


def test_an_error_of_the_users_names_the_stage_and_the_batch_can_be_done_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"

    def inverse(number: int) -> float:
        return 0.0 if mended.exists() and not number else 1 / number

    def flow(got: list[float]) -> Flow:
        made = Flow("broken")
        made.source([4, 2, 0, 1]).map(inverse).sink(Collect(got))
        return made

    first: list[float] = []
    with pytest.raises(FlowError, match="stage 'inverse': ZeroDivisionError") as caught:
        stream_on_spark(flow(first), spark, checkpoints=tmp_path / "kept", nodes=1, max_events=2)
    assert "java" not in str(caught.value).lower()
    assert first == [0.25, 0.5]

    mended.touch()
    rest: list[float] = []
    stages = stream_on_spark(flow(rest), spark, checkpoints=tmp_path / "kept", max_events=2)
    assert rest == [0.0, 1.0]
    assert [(stage.taken, stage.given) for stage in stages] == [(0, 4), (4, 4), (4, 0)]


def test_sources_that_can_not_stream_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for source, said in (
        (iter(range(3)), "it can be read only once; pass a function that returns it anew"),
        (DataFrameSource(lambda s: s.range(3)), "its DataFrame does not stream; make it with"),
    ):
        flow = Flow("unfit")
        flow.source(source).sink(Collect())
        with pytest.raises(FlowError, match=said):
            stream_on_spark(flow, spark, checkpoints=tmp_path / "unfit", nodes=1)


@pytest.mark.usefixtures("spark")
def test_the_command_streams_and_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        dedent(f"""
        from shunter import Flow
        from shunter.flow.sinks import WriteJsonLines

        flow = Flow("counted")
        texts = flow.source(range(5)).map(str)
        texts.sink(WriteJsonLines("{tmp_path}/out.jsonl"), workers=1)
        """)
    )
    words = ["run", str(tmp_path / "counted.py"), "--on", "spark", "--stream"]

    lost = CliRunner().invoke(app, words)
    misplaced = CliRunner().invoke(app, [*words[:2], "--on", "local", "--stream"])
    done = CliRunner().invoke(
        app, [*words, "--checkpoints", str(tmp_path / "kept"), "--max-events", "3", "--json"]
    )

    assert "say --checkpoints FOLDER" in str(lost.exception)
    assert "--stream is for --on spark" in str(misplaced.exception)
    assert done.exit_code == 0, done.output
    stages = json.loads(done.stdout)["stages"]
    assert [(stage["taken"], stage["given"]) for stage in stages] == [(0, 5), (5, 5), (5, 0)]
    assert lines_of(tmp_path / "out.jsonl") == list("01234")
