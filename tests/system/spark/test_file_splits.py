"""Files on Spark: read by as many tasks as they have splits, in order; followed as streams."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import Flow
from shunter.flow.location import Location
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.batch.compiled_flow import CompiledFlow
from shunter.flow.runners.spark.batch.file_splits import MOST_BYTES, OPEN_BYTES, split_sizes
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import Collect, WriteJsonLines
from shunter.flow.sources import CsvRows, JsonLines, ParquetRows, TextLines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 4_000
BAD = (17, 1_999, 3_000)


class Row(msgspec.Struct):
    n: int
    k: str


class InOrder:
    """One key: how many events there were, the last one, and how often order was broken."""

    def __init__(self, key: str) -> None:
        self.key, self.count, self.last, self.broken = key, 0, -1, 0

    def on_event(self, row: Any) -> None:
        number = row.n if isinstance(row, Row) else row["n"]
        self.count, self.broken = self.count + 1, self.broken + (number < self.last)
        self.last = number

    def on_instruction(self, _: Any) -> tuple[str, int, int, int]:
        return self.key, self.count, self.last, self.broken


def number_of(row: Any) -> int:
    return row.n if isinstance(row, Row) else int(row["n"])


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[SparkSession]:
    settings = {MOST_BYTES: "8k", OPEN_BYTES: "100"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


def json_files(folder: Location) -> None:
    for start in range(0, COUNT, COUNT // 2):
        with (folder / f"{start:06}.jsonl").create() as file:
            for n in range(start, start + COUNT // 2):
                line = f"bad {n}" if n in BAD else json.dumps({"n": n, "k": f"k{n % 7}"})
                file.write(f"{line}\n".encode())


def parquet_files(folder: Path) -> None:
    rows = [{"n": n, "k": f"k{n % 7}", "more": str(n**9)} for n in range(COUNT)]
    folder.mkdir()
    for at, start in enumerate(range(0, COUNT, COUNT // 4)):
        table = pa.Table.from_pylist(rows[start : start + COUNT // 4])
        pq.write_table(table, folder / f"{at}.parquet", row_group_size=200)


def flow_of(source: Any, on_error: Any = "skip") -> tuple[Flow, list[Any], list[int]]:
    flow = Flow("splits", on_error=on_error)
    by_key: list[Any] = []
    numbers: list[int] = []
    rows = flow.source(source, name="rows")
    rows.key_by("k").stateful(InOrder).sink(Collect(by_key), name="by_key", workers=1)
    rows.map(number_of).sink(Collect(numbers), name="numbers", workers=1)
    return flow, by_key, numbers


def counts(stages: Any) -> list[tuple[str, int, int, int]]:
    return [(stage.name, stage.taken, stage.given, stage.failed) for stage in stages]


def both_ways(source: Any, spark: SparkSession) -> tuple[int, list[int], list[Any]]:
    """Compare a run on Spark with one in this process; return how many tasks have read."""
    here, by_key_here, numbers_here = flow_of(source)
    told_here = LocalRun(here, nodes=2).run().stages
    there, by_key, numbers = flow_of(source)
    told = run_on_spark(there, spark, nodes=2)

    assert sorted(by_key) == sorted(by_key_here)
    assert all(broken == 0 for *_, broken in by_key)
    assert numbers == numbers_here == sorted(numbers_here)
    assert counts(told) == counts(told_here)
    compiled = CompiledFlow(there, spark, 2)
    [read] = [chain for chain in compiled._chains if chain.is_source]
    return compiled.input_of(read).rdd.getNumPartitions(), numbers, told


def test_lines_of_json_are_read_by_many_tasks_in_the_order_of_the_files(
    small_splits: SparkSession, tmp_path: Path
) -> None:
    json_files(Location.of(tmp_path))
    tasks, numbers, told = both_ways(JsonLines(tmp_path, type=Row), small_splits)

    assert tasks > 10
    assert len(numbers) == COUNT - len(BAD)
    assert told[0].failed == len(BAD)


def test_row_groups_are_read_by_many_tasks_and_a_filter_reaches_them(
    small_splits: SparkSession, tmp_path: Path
) -> None:
    parquet_files(tmp_path / "in")
    tasks, numbers, _ = both_ways(ParquetRows(tmp_path / "in"), small_splits)
    assert tasks > 4
    assert numbers == list(range(COUNT))

    source = ParquetRows(tmp_path / "in", type=Row, where=[("n", ">=", 900), ("n", "<", 1_900)])
    _, numbers, _ = both_ways(source, small_splits)
    assert numbers == list(range(900, 1_900))


def test_small_files_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number:03}.csv").write_text(f"n,k\n{number},k{number % 7}\n")
    most, opening, _ = split_sizes(spark, 2)
    tasks, numbers, _ = both_ways(CsvRows(tmp_path, converters={"n": int}), spark)

    assert (most, opening) == (128 << 20, 4 << 20)
    assert numbers == list(range(200))
    assert 2 <= tasks <= 10


def test_bad_lines_of_splits_have_their_numbers_in_the_letters(
    small_splits: SparkSession, tmp_path: Path
) -> None:
    json_files(Location.of(tmp_path))
    letters: list[Any] = []
    flow, _, _ = flow_of(JsonLines(tmp_path, type=Row), Collect(letters))
    run_on_spark(flow, small_splits, nodes=2)

    assert [letter["event"] for letter in letters] == [f"bad {n}" for n in BAD]
    places = [("000000", 18), ("000000", 2_000), ("002000", 1_001)]
    for letter, (name, line) in zip(letters, places, strict=True):
        assert f"{name}.jsonl:{line}: " in letter["error"]


def test_files_in_a_store_are_read_by_executors(small_splits: SparkSession, s3_bucket: str) -> None:
    folder = f"{s3_bucket.replace('s3', 's3a')}/in"
    json_files(Location.of(folder))
    found: list[int] = []
    flow = Flow("store")
    flow.source(TextLines(folder)).map(len).sink(Collect(found), workers=1)
    run_on_spark(flow, small_splits, nodes=2)

    assert len(found) == COUNT


def when_there_are(lines: int, path: Path) -> Callable[[], bool]:
    until = time.monotonic() + 60

    def should_stop() -> bool:
        assert time.monotonic() < until, "nothing came"
        return path.exists() and len(path.read_bytes().splitlines()) >= lines

    return should_stop


def test_a_folder_is_followed_as_a_stream_also_behind_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox, out = tmp_path / "inbox", tmp_path / "out.jsonl"
    inbox.mkdir()

    def run(lines: int) -> None:
        flow = Flow("followed", on_error="skip")
        rows = flow.source(JsonLines(inbox, follow=True), name="rows")
        rows.map(number_of).sink(WriteJsonLines(out), workers=1)
        with pytest.raises(Stopped):
            stream_on_spark(
                flow, spark, checkpoints=tmp_path / "checkpoint", nodes=1,
                should_stop=when_there_are(lines, out),
            )  # fmt: skip

    (inbox / "a.jsonl").write_text('{"n": 1}\nbad\n{"n": 2}\n')
    run(2)
    (inbox / "b.jsonl").write_text('{"n": 3}\n')
    (inbox / "c.jsonl.part").write_text('{"n": 4}\n')
    run(3)

    assert [json.loads(line) for line in out.read_text().splitlines()] == [1, 2, 3]
