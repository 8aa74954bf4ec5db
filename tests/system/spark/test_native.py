"""What Spark does by itself, in columns of its own: aggregates, frames, files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow.graph.aggregates import ApproxDistinct, Count, Max, Mean, Min, Sum
from shunter.flow.graph.windows import Window
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.columns.column_plan import ColumnPlan
from shunter.flow.runners.spark.columns.column_types import quoted, spark_columns
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks import Collect, WriteParquet
from shunter.flow.sources import ParquetRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Reading(msgspec.Struct):
    machine: str
    value: float
    at: int


def checked(reading: Reading) -> Reading:
    return Reading(reading.machine, reading.value + 1, reading.at)


def failing(reading: Reading) -> Reading:
    return Reading(reading.machine, 1 / (reading.at - 77), reading.at)


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readings")
    for part in range(3):
        numbers = range(part * 100, part * 100 + 100)
        table = pa.table({
            "machine": [f"m{n % 5}" for n in numbers],
            "value": [n / 4 for n in numbers],
            "at": list(numbers),
            "time": pa.array([NOON + timedelta(seconds=n) for n in numbers]),
            "note": [None if n % 3 else n for n in numbers],
        })  # fmt: skip
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=40)
    return folder


def counts(stages: Iterable[StageReport]) -> dict[str, tuple[int, int, int]]:
    return {stage.name: (stage.taken, stage.given, stage.failed) for stage in stages}


def in_order(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(results, key=repr)


def how(flow: Flow, spark: SparkSession, stage: str) -> Any:
    return ColumnPlan(flow, spark, 2).decided[flow.stage(stage)]


AGGREGATES = {
    "count": Count(), "total": Sum("value"), "least": Min("at"), "most": Max("value"),
    "mean": Mean("at"), "noted": Sum("note"), "notes": ApproxDistinct("note"),
}  # fmt: skip


@pytest.mark.parametrize(
    "window",
    [
        None,
        Window(60, time="at"),
        Window(60, every=25, time="at"),
        Window(7.5, time="value"),
        Window(timedelta(minutes=1), every=20, time="time"),
    ],
    ids=str,
)
def test_files_are_aggregated_without_python(
    spark: SparkSession, readings: Path, window: Window | None
) -> None:
    here: list[dict[str, Any]] = []
    there: list[dict[str, Any]] = []

    def flow_into(results: list[dict[str, Any]]) -> Flow:
        flow = Flow("files")
        rows = flow.source(ParquetRows(readings), name="rows")
        told = rows.key_by("machine").aggregate(**AGGREGATES, window=window, name="told")
        told.sink(Collect(results), name="results")
        return flow

    expected = LocalRun(flow_into(here)).run().stages
    flow = flow_into(there)
    found = run_on_spark(flow, spark, nodes=2)

    assert how(flow, spark, "told").is_direct
    assert in_order(there) == in_order(here)
    assert counts(found) == counts(expected)


def test_a_function_before_runs_in_as_many_tasks_as_there_are_files(
    spark: SparkSession, readings: Path
) -> None:
    here: list[dict[str, Any]] = []
    there: list[dict[str, Any]] = []

    def flow_into(results: list[dict[str, Any]]) -> Flow:
        flow = Flow("mapped")
        rows = flow.source(ParquetRows(readings, type=Reading), name="rows").map(checked)
        kept = rows.filter(lambda reading: reading.at % 2, name="odd")
        told = kept.key_by("machine").aggregate(count=Count(), total=Sum("value"), name="told")
        told.sink(Collect(results), name="results")
        return flow

    expected = LocalRun(flow_into(here)).run().stages
    flow = flow_into(there)
    plan = ColumnPlan(flow, spark, 2)
    found = run_on_spark(flow, spark, nodes=2)

    native = plan.decided[flow.stage("told")]
    assert not isinstance(native, str)
    assert [column.kind for column in native.columns] == ["string", "double"]
    assert in_order(there) == in_order(here)
    assert counts(found) == counts(expected)


def test_a_fault_before_columns_names_stage_event_and_line(
    spark: SparkSession, readings: Path
) -> None:
    flow = Flow("fails")
    rows = flow.source(ParquetRows(readings, type=Reading)).map(failing)
    rows.key_by("machine").aggregate(total=Sum("value")).sink(Collect())

    with pytest.raises(FlowError, match="stage 'failing': ZeroDivisionError") as caught:
        run_on_spark(flow, spark, nodes=2)

    assert "at=77" in str(caught.value)
    assert "1 / (reading.at - 77)" in str(caught.value)
    assert __file__ in caught.value.place


def test_values_of_another_type_than_annotated_are_refused(spark: SparkSession) -> None:
    def lying(number: int) -> Reading:
        return Reading("saw", "much", number)  # type: ignore[arg-type]

    flow = Flow("lies")
    flow.source(range(3)).map(lying).key_by("machine").aggregate(s=Sum("value"), name="told").sink(
        Collect()
    )

    with pytest.raises(FlowError, match="stage 'told': what comes to it does not fit the schema"):
        run_on_spark(flow, spark, nodes=2)


def test_columns_are_written_by_spark_and_published_at_once(
    spark: SparkSession, readings: Path, tmp_path: Path
) -> None:
    flow = Flow("written")
    rows = flow.source(ParquetRows(readings), name="rows")
    told = rows.key_by("machine").aggregate(
        count=Count(), window=Window(60, time="time"), name="told"
    )
    told.sink(WriteParquet(tmp_path / "out"), name="files")

    for _ in range(2):
        found = run_on_spark(flow, spark, nodes=2)

        table = pq.read_table(tmp_path / "out")
        assert sum(table["count"].to_pylist()) == 300
        assert table.schema.field("start").type == pa.timestamp("us", tz="UTC")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert counts(found)["told"] == (300, 25, 0)
        assert counts(found)["files"] == (25, 0, 0)
        assert counts(found)["rows"] == (0, 300, 0)


def test_a_failed_run_leaves_what_was_published(
    spark: SparkSession, readings: Path, tmp_path: Path
) -> None:
    for function in (checked, failing):
        flow = Flow("once")
        rows = flow.source(ParquetRows(readings, type=Reading)).map(function)
        told = rows.key_by("machine").aggregate(total=Sum("value"))
        told.sink(WriteParquet(tmp_path / "out"))
        if function is checked:
            run_on_spark(flow, spark, nodes=2)
            before = pq.read_table(tmp_path / "out")
        else:
            with pytest.raises(FlowError, match="ZeroDivisionError"):
                run_on_spark(flow, spark, nodes=2)

    assert pq.read_table(tmp_path / "out") == before


# ---- frames


def doubled(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return frame.select("machine", (functions.col("value") * 2).alias("twice")).where("twice > 10")


def test_a_frame_stands_between_files_and_an_aggregate(
    spark: SparkSession, readings: Path, tmp_path: Path
) -> None:
    flow = Flow("framed")
    framed = flow.source(ParquetRows(readings), name="rows").frame(doubled)
    told = framed.key_by("machine").aggregate(count=Count(), total=Sum("twice"), name="told")
    told.sink(WriteParquet(tmp_path / "out"), name="files")

    found = run_on_spark(flow, spark, nodes=2)

    rows = pq.read_table(tmp_path / "out").to_pylist()
    kept = [n / 2 for n in range(300) if n / 2 > 10]
    assert sum(row["total"] for row in rows) == sum(kept)
    assert counts(found) == {
        "rows": (0, 300, 0), "doubled": (300, len(kept), 0), "told": (len(kept), 5, 0),
        "files": (5, 0, 0),
    }  # fmt: skip


def test_a_frame_stands_between_functions_also_where_there_are_several_outputs(
    spark: SparkSession,
) -> None:
    flow = Flow("between")
    results: list[float] = []
    others: list[Reading] = []
    made = flow.source(range(100)).map(lambda n: Reading(f"m{n % 3}", float(n), n), name="made")
    framed = made.frame(doubled, schema="machine string, value double")
    framed.map(lambda row: row["twice"], name="twice").sink(Collect(results), name="results")
    made.filter(lambda reading: reading.at < 5, name="few").sink(Collect(others), name="others")

    found = run_on_spark(flow, spark, nodes=2)

    assert sorted(results) == [2.0 * n for n in range(6, 100)]
    assert [reading.at for reading in others] == list(range(5))
    assert counts(found)["doubled"] == (100, 94, 0)
    assert counts(found)["twice"] == (94, 94, 0)


def test_a_frame_of_unknown_columns_asks_for_its_schema(spark: SparkSession) -> None:
    flow = Flow("unknown")
    flow.source(range(3)).map(lambda n: {"n": n}).frame(doubled).sink(Collect())

    with pytest.raises(FlowError, match="stage 'doubled': the types of the columns") as caught:
        run_on_spark(flow, spark, nodes=2)
    assert __file__ in caught.value.place


def test_what_a_frame_raises_names_the_users_line(spark: SparkSession) -> None:
    def wrong(frame: DataFrame) -> DataFrame:
        return frame.select("nothing")

    flow = Flow("wrong")
    source = DataFrameSource(lambda session: session.range(10))
    flow.source(source).frame(wrong).sink(Collect())

    with pytest.raises(FlowError, match=r"stage 'wrong': .*nothing") as caught:
        run_on_spark(flow, spark, nodes=2)
    assert 'frame.select("nothing")' in str(caught.value)


def test_a_dataframe_goes_through_a_frame_and_an_aggregate(spark: SparkSession) -> None:
    flow = Flow("frames")
    results: list[dict[str, Any]] = []
    numbers = flow.source(DataFrameSource(lambda session: session.range(100)), name="numbers")
    framed = numbers.frame(lambda frame: frame.selectExpr("id % 3 as k", "id as v"), name="framed")
    told = framed.key_by("k").aggregate(total=Sum("v"), name="told")
    told.sink(Collect(results), name="results")

    found = run_on_spark(flow, spark, nodes=2)

    assert in_order(results) == [
        {"k": k, "total": sum(range(k, 100, 3))} for k in range(3)
    ]  # fmt: skip
    assert counts(found)["told"] == (100, 3, 0)
    assert counts(found)["framed"] == (0, 100, 0), "nobody counts a DataFrame on its way to a frame"


COLUMNS: dict[str, Any] = {
    "tiny": pa.array([1], pa.int8()), "small": pa.array([1], pa.int16()),
    "int": pa.array([1], pa.int32()), "long": pa.array([1], pa.int64()),
    "float": pa.array([1], pa.float32()), "double": pa.array([1], pa.float64()),
    "text": pa.array(["a"]), "much text": pa.array(["a"], pa.large_string()),
    "is": pa.array([True]), "bytes": pa.array([b"a"]),
    "more bytes": pa.array([b"a"], pa.large_binary()),
    "day": pa.array([NOON.date()]), "a`b": pa.array([1]),
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "unsigned": pa.array([1], pa.uint32()), "at": pa.array([NOON]),
    "naive": pa.array([NOON.replace(tzinfo=None)]), "list": pa.array([[1]]),
    "word": pa.array(["a"]).dictionary_encode(),
}  # fmt: skip


def test_spark_is_told_the_types_that_it_would_find_itself(spark: SparkSession, tmp_path: Path):
    pq.write_table(pa.table(COLUMNS | OTHERS), tmp_path / "one.parquet")
    schema = pq.read_schema(tmp_path / "one.parquet")

    told = spark_columns(schema, list(COLUMNS))

    assert told is not None
    found = spark.read.parquet(str(tmp_path)).select(*map(quoted, COLUMNS)).schema
    assert spark.read.schema(told).parquet(str(tmp_path)).schema == found
    assert all(spark_columns(schema, ["int", name]) is None for name in OTHERS)


def test_spark_finds_its_own_types_out_where_it_wrote_others_than_the_file_has(
    spark: SparkSession, tmp_path: Path
):
    frame = spark.sql("select 1L as n, interval '3' month as term")
    frame.write.parquet(str(tmp_path / "out"))
    [file] = (tmp_path / "out").glob("*.parquet")

    assert spark_columns(pq.read_schema(file), ["n", "term"]) is None
    assert spark_columns(pq.read_schema(file), ["n"]) == "`n` long"
