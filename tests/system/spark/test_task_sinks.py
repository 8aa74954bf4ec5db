"""Files that Spark's tasks write: nothing but manifests comes to the driver."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flow_witness import Numbers
from shunter.errors import FlowError
from shunter.flow.flow import Flow
from shunter.flow.location import Location
from shunter.flow.manifest import manifest_of
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.batch import bounded_rows
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import Collect, WriteCsv, WriteDelta, WriteJsonLines, WriteParquet


def row(n: int) -> dict[str, Any]:
    return {"n": n, "parity": "odd" if n % 2 else "even", "process": os.getpid()}


def numbers_into(sink: Any, *, count: int = 1000, workers: int | None = None) -> Flow:
    flow = Flow("numbers")
    flow.source(Numbers(count), workers=2).map(row).sink(sink, name="out", workers=workers)
    return flow


def test_tasks_write_the_files_and_the_driver_publishes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    report = run_on_spark(numbers_into(WriteParquet(tmp_path / "out")), spark)

    table = pq.read_table(tmp_path / "out")
    assert sorted(table["n"].to_pylist()) == [*range(1000)]
    assert os.getpid() not in table["process"].to_pylist()
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [(stage.name, stage.taken) for stage in report][-1] == ("out", 1000)


@pytest.mark.parametrize("make", [WriteJsonLines, WriteCsv])
def test_one_file_is_asked_for_by_files_or_workers(
    spark: SparkSession, tmp_path: Path, make: Any
) -> None:
    for name, sink, workers in (
        ("files", make(tmp_path / "files", files=1), None),
        ("workers", make(tmp_path / "workers"), 1),
    ):
        run_on_spark(numbers_into(sink, workers=workers), spark)
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == 1000 + (make is WriteCsv)
    run_on_spark(numbers_into(make(tmp_path / "folder")), spark)
    assert len(list((tmp_path / "folder").iterdir())) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "folder", "workers"]


def test_files_says_how_many(spark: SparkSession, tmp_path: Path) -> None:
    run_on_spark(numbers_into(WriteParquet(tmp_path / "out", files=3)), spark)

    assert len(list((tmp_path / "out").iterdir())) <= 3
    assert sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()) == [*range(1000)]


def test_partitions_modes_and_compression(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        sink = WriteParquet(
            tmp_path / "out", partition_by="parity", mode="append", compression="zstd"
        )
        run_on_spark(numbers_into(sink), spark)

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "parity=even",
        "parity=odd",
    ]
    found = pq.read_table(tmp_path / "out")
    assert sorted(found["n"].to_pylist()) == sorted([*range(1000)] * 2)
    with pytest.raises(FlowError, match='mode is "error"'):
        run_on_spark(numbers_into(WriteParquet(tmp_path / "out", mode="error")), spark)


def test_a_delta_table_gets_a_run_by_one_transaction(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        run_on_spark(numbers_into(WriteDelta(tmp_path / "table")), spark)

    table = DeltaTable(tmp_path / "table")
    assert table.version() == 1
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == sorted([*range(1000)] * 2)


def test_a_run_that_fails_in_its_last_event_shows_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    run_on_spark(numbers_into(WriteParquet(tmp_path / "out"), count=10), spark)
    flow = Flow("fails")
    broken = (
        flow.source(Numbers(1000), workers=2).map(row).map(lambda r: {**r, "x": 1 / (999 - r["n"])})
    )
    broken.sink(WriteParquet(tmp_path / "out"))

    with pytest.raises(FlowError, match="ZeroDivisionError"):
        run_on_spark(flow, spark)

    assert sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()) == [*range(10)]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_columns_that_only_one_task_has_seen_are_in_all_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("growing")
    rows = flow.source(Numbers(100), workers=2)
    rows.map(lambda n: {"n": n, "odd": 0.5} if n % 2 else {"n": n, "odd": None, "even": "e"}).sink(
        WriteParquet(tmp_path / "out")
    )
    run_on_spark(flow, spark)

    schemas = {str(pq.read_schema(path)) for path in (tmp_path / "out").iterdir()}
    assert len(schemas) == 1
    assert {row["even"] for row in pq.read_table(tmp_path / "out").to_pylist()} == {None, "e"}


def test_bad_events_go_to_a_file_of_their_own_beside_the_good_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow("letters", on_error=WriteJsonLines(tmp_path / "bad.jsonl"))
    flow.source(Numbers(100), workers=2).map(lambda n: {"n": 10 // (n % 10)}).sink(
        WriteParquet(tmp_path / "good")
    )
    report = run_on_spark(flow, spark)

    assert pq.read_table(tmp_path / "good").num_rows == 90
    letters = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert sorted(letter["event"] for letter in letters) == [*range(0, 100, 10)]
    assert sum(stage.failed for stage in report) == 10
    assert {stage.last_error for stage in report if stage.failed} == {
        "ZeroDivisionError: integer division or modulo by zero"
    }


def test_one_stage_may_feed_several_sinks(spark: SparkSession, tmp_path: Path) -> None:
    collected: list[Any] = []
    flow = Flow("several")
    rows = flow.source(Numbers(100), workers=2).map(row)
    rows.sink(WriteParquet(tmp_path / "all"))
    rows.filter(lambda r: r["n"] % 2).sink(WriteJsonLines(tmp_path / "odd"))
    rows.sink(Collect(collected))
    run_on_spark(flow, spark)

    assert sorted(pq.read_table(tmp_path / "all")["n"].to_pylist()) == [*range(100)]
    texts = [path.read_text() for path in (tmp_path / "odd").iterdir()]
    odd = [json.loads(line)["n"] for text in texts for line in text.splitlines()]
    assert sorted(odd) == [*range(1, 100, 2)]
    assert len(collected) == 100


def test_an_object_store_gets_unique_names_a_manifest_and_success(
    spark: SparkSession, s3_bucket: str
) -> None:
    target = Location.of(f"{s3_bucket.replace('s3', 's3a')}/out")
    for count in (1000, 10):
        flow = Flow("stored")
        flow.source(range(count)).map(lambda n: {"n": n}).sink(WriteParquet(target.url))
        run_on_spark(flow, spark)

        manifest = manifest_of(target)
        assert manifest is not None
        tables = [pq.ParquetFile((target / name).open()).read() for name in manifest.files]
        assert sorted(n for t in tables for n in t["n"].to_pylist()) == [*range(count)]
        names = [info.location.url for info in target.files(recursive=True)]
        assert (target / "_SUCCESS").url in names
        assert sum("/part-" in name for name in names) == len(manifest.files)


def test_many_events_for_the_driver_come_in_pieces_and_in_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece by a job of its own, when all before it are taken: Java keeps none of them."""
    monkeypatch.setattr(bounded_rows, "FEW_BYTES", 1000)
    monkeypatch.setattr(bounded_rows, "PIECE_BYTES", 20_000)
    taken: list[int] = []
    pieces: list[Any] = []
    before: list[int] = []
    run_job = SparkContext.runJob

    def noted(context: Any, rows: Any, function: Any, piece: Any) -> Any:
        pieces.append(piece)
        before.append(len(taken))
        return run_job(context, rows, function, piece)

    monkeypatch.setattr(SparkContext, "runJob", noted)
    flow = Flow("many")
    flow.source(range(50_000)).sink(taken.append, workers=1)
    run_on_spark(flow, spark, nodes=2)

    assert taken == [*range(50_000)]
    assert pieces == [[n] for n in range(len(pieces))]
    assert before == sorted(before)
    assert len(set(before)) > 2
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_a_stream_s_tasks_write_its_files_and_each_batch_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    def flow() -> Flow:
        made = Flow("streamed")
        rows = made.source(Numbers(400), name="numbers", workers=2).map(row)
        rows.sink(WriteParquet(tmp_path / "out"), name="parquet")
        rows.sink(WriteDelta(tmp_path / "table"), name="delta")
        rows.sink(WriteJsonLines(tmp_path / "lines"), name="lines")
        return made

    def numbers() -> list[list[int]]:
        texts = [path.read_text() for path in (tmp_path / "lines").iterdir()]
        return [
            sorted(pq.read_table(tmp_path / "out")["n"].to_pylist()),
            sorted(DeltaTable(tmp_path / "table").to_pyarrow_table()["n"].to_pylist()),
            sorted(json.loads(line)["n"] for text in texts for line in text.splitlines()),
        ]

    batches = 0

    def count(_: Any) -> None:
        nonlocal batches
        batches += 1

    with pytest.raises(Stopped):
        stream_on_spark(
            flow(), spark, checkpoints=tmp_path / "kept", nodes=2, max_events=80,
            progress=count, should_stop=lambda: batches > 0,
        )  # fmt: skip
    seen = numbers()
    assert seen[0] == seen[1] == seen[2]
    assert 160 <= len(seen[0]) < 400

    kept: list[Any] = []
    stages = stream_on_spark(
        flow(), spark, checkpoints=tmp_path / "kept", max_events=80, on_kept=kept.append
    )
    assert [batch.number for batch in kept] == list(range(kept[0].number, kept[-1].number + 1))
    assert sum(batch.events for batch in kept) == 400 - len(seen[0])

    assert numbers() == [[*range(400)]] * 3
    assert {stage.name: stage.taken for stage in stages}["parquet"] == 400
    assert os.getpid() not in pq.read_table(tmp_path / "out")["process"].to_pylist()
