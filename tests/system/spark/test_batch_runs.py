"""Flows on Spark: faults, several outputs, code that is shipped, instructions, DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from typer.testing import CliRunner

from shunter import Flow
from shunter.cli.flows import app
from shunter.errors import FlowError
from shunter.flow.graph.instructions import FLUSH, Instruction
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runtime.report import StageReport
from shunter.flow.sinks import Collect, WriteJsonLines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sum:
    """Tells its sum when it is flushed, and at the end."""

    def __init__(self, key: Any) -> None:
        self.key, self.sum = key, 0

    def on_event(self, number: int) -> None:
        self.sum += number

    def on_instruction(self, instruction: Instruction) -> tuple[Any, str, int]:
        return self.key, instruction.name, self.sum


class Reading(msgspec.Struct):
    machine: str
    value: float


def report_of(stages: list[StageReport], name: str) -> StageReport:
    return next(stage for stage in stages if stage.name == name)


def test_a_shared_part_is_computed_once(spark: SparkSession, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def noted(number: int) -> int:
        with calls.open("a") as file:
            file.write(f"{number}\n")
        return number

    flow = Flow("shared")
    low: list[int] = []
    high: list[int] = []
    numbers = flow.source(range(100)).map(noted)
    numbers.filter(lambda n: n < 50).sink(Collect(low))
    numbers.key_by(lambda n: n % 5).map(lambda n: n * 10).sink(Collect(high))

    run_on_spark(flow, spark, nodes=2)

    assert low == list(range(50))
    assert sorted(high) == [10 * n for n in range(100)]
    assert sorted(map(int, calls.read_text().split())) == list(range(100))


def test_a_run_that_stops_publishes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow("stops")
    numbers = flow.source(range(100)).balanced().map(lambda n: 1 / (n - 77), name="inverse")
    numbers.sink(WriteJsonLines(tmp_path / "out.jsonl"), workers=1)

    with pytest.raises(FlowError) as caught:
        run_on_spark(flow, spark, nodes=2)

    assert "at the event 77" in str(caught.value)
    assert caught.value.stage == "inverse"
    assert __file__ in caught.value.place
    assert list(tmp_path.iterdir()) == []


def test_what_a_state_raises_at_the_end_names_the_users_line(spark: SparkSession) -> None:
    class Fails:
        def on_event(self, number: int) -> int:
            return number

        def on_instruction(self, instruction: Instruction) -> None:
            raise LookupError(f"not at the {instruction.name}")

    flow = Flow("fails")
    flow.source([1]).stateful(Fails).sink(Collect())

    with pytest.raises(
        FlowError, match="stage 'Fails': LookupError: not at the end of stream"
    ) as caught:
        run_on_spark(flow, spark, nodes=2)
    assert "raise LookupError" in str(caught.value)


def test_an_event_that_cannot_be_encoded_is_named(spark: SparkSession) -> None:
    flow = Flow("opaque")
    flow.source([1]).map(lambda n: object()).balanced().map(str).sink(Collect())

    with pytest.raises(FlowError, match=r"an event is a builtins\.object"):
        run_on_spark(flow, spark, nodes=2)


def test_skipped_events_are_counted_by_stage(spark: SparkSession) -> None:
    flow = Flow("skips", on_error="skip")
    kept: list[float] = []
    numbers = (
        flow.source([n % 4 for n in range(40)]).balanced().map(lambda n: 1 / n, name="inverse")
    )
    numbers.key_by(lambda x: 1 / (x - 1)).map(lambda x: x, name="keyed").sink(Collect(kept))

    stages = run_on_spark(flow, spark, nodes=2)

    assert report_of(stages, "inverse").failed == 10
    assert report_of(stages, "keyed").failed == 10
    assert report_of(stages, "inverse").last_error == "ZeroDivisionError: division by zero"
    assert Counter(kept) == {0.5: 10, 1 / 3: 10}


def test_dead_letters_come_with_the_traceback(spark: SparkSession) -> None:
    letters: list[dict[str, Any]] = []
    flow = Flow("letters", on_error=letters.append)
    kept: list[float] = []
    flow.source([2, 0, 1]).balanced().map(lambda n: 1 / n, name="inverse").sink(Collect(kept))

    stages = run_on_spark(flow, spark, nodes=2)

    assert sorted(kept) == [0.5, 1.0]
    assert [(each["stage"], each["event"]) for each in letters] == [("inverse", 0)]
    assert "ZeroDivisionError" in letters[0]["traceback"]
    assert report_of(stages, "dead letters").taken == 1


def test_every_key_gets_an_instruction_between_the_right_events(spark: SparkSession) -> None:
    flow = Flow("flushed")
    told: list[tuple[int, str, int]] = []
    events = [*range(10_000), Instruction(FLUSH), *range(10_000)]
    mapped = flow.source(events).balanced().map(lambda n: n, workers=3)
    mapped.key_by(lambda n: n % 3).stateful(Sum, any_order=True).sink(Collect(told))

    run_on_spark(flow, spark, nodes=2)

    sums = {key: sum(range(key, 10_000, 3)) for key in range(3)}
    half = {(key, FLUSH, total) for key, total in sums.items()}
    whole = {(key, "end of stream", 2 * total) for key, total in sums.items()}
    assert set(told) == half | whole
    assert len(told) == 6


def test_a_generator_is_read_where_the_run_is_started(spark: SparkSession) -> None:
    def numbers() -> Iterator[int]:
        yield from range(10)

    flow = Flow("generated")
    got: list[int] = []
    flow.source(numbers()).map(lambda n: n + 1).sink(Collect(got))

    run_on_spark(flow, spark, nodes=2)

    assert got == list(range(1, 11))


def test_a_source_that_cannot_be_sent_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow("unsendable")
    with (tmp_path / "lock").open("w") as held:
        flow.source(range(3)).map(lambda n: (held.name, n)).sink(Collect())
        with pytest.raises(FlowError, match="can't be sent to Spark's executors"):
            run_on_spark(flow, spark, nodes=2)


def test_a_dataframe_is_read_in_all_its_partitions(spark: SparkSession) -> None:
    flow = Flow("framed")
    got: list[tuple[str, str, float]] = []
    plain: list[int] = []
    columns = "concat('m', id % 3) as machine", "id * 0.5 as value"
    readings = flow.source(
        DataFrameSource(lambda s: s.range(0, 3000, 1, 3).selectExpr(*columns), type=Reading),
        name="readings",
    )
    warm = readings.filter(lambda reading: reading.value >= 1.0)
    warm.key_by("machine").stateful(Total).sink(Collect(got))
    ids = flow.source(DataFrameSource(lambda s: s.range(5)), name="ids")
    ids.map(lambda row: row["id"]).stateful(Batched, workers=1).sink(Collect(plain))

    stages = run_on_spark(flow, spark, nodes=2)

    values = {
        f"m{key}": sum(n * 0.5 for n in range(3000) if n % 3 == key and n >= 2) for key in range(3)
    }
    assert dict(got) == values
    assert [sorted(batch) for batch in plain] == [[0, 1, 2, 3, 4]]
    assert report_of(stages, "readings").given == 3000


def test_a_flow_stands_between_two_dataframes(spark: SparkSession) -> None:
    flow = Flow("between")
    totals = flow.source([]).filter(lambda reading: reading.value > 0).key_by("machine")
    named = totals.stateful(Total).map(lambda pair: {"machine": pair[0], "total": pair[1]})
    named.sink(Collect())
    frame = spark.range(0, 100, 1, 3).selectExpr(
        "concat('m', id % 2) as machine", "id * 1.0d value"
    )

    out = flow.transform(frame, "machine string, total double", type=Reading, nodes=2)

    assert dict(out.where("total > 2450").collect()) == {"m1": 2500.0}
    wrong = flow.transform(frame, "machine long, total double", type=Reading, nodes=2)
    with pytest.raises(Exception, match="does not fit the schema"):
        wrong.collect()
    flow.source([], name="another").sink(Collect())
    with pytest.raises(FlowError, match="has 2 sources and 2 sinks"):
        flow.transform(frame, "machine string")


class Total:
    def __init__(self, key: str) -> None:
        self.key, self.total = key, 0.0

    def on_event(self, reading: Reading) -> None:
        self.total += reading.value

    def on_instruction(self, _: Instruction) -> tuple[str, float]:
        return self.key, self.total


class Batched:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def on_instruction(self, _: Instruction) -> list[Any]:
        return self.events


def test_a_dataframe_is_for_spark_alone() -> None:
    flow = Flow("framed")
    flow.source(DataFrameSource(lambda s: s.range(5))).sink(Collect())

    with pytest.raises(FlowError, match="--on spark"):
        flow.run("local")


def test_a_flow_runs_itself_where_it_is_told_to(spark: SparkSession) -> None:
    for on in ("local", "spark", spark):
        flow = Flow("itself")
        got: list[int] = []
        flow.source(range(3)).map(lambda n: n + 1).sink(Collect(got))

        stages = flow.run(on=on)

        assert got == [1, 2, 3]
        assert [stage.taken for stage in stages] == [0, 3, 3]
    with pytest.raises(FlowError, match="can't run on 'flink'; say 'spark', 'engines', 'local'"):
        flow.run(on="flink")


def test_code_gets_to_executors_that_have_not_the_users_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lent").mkdir()
    (tmp_path / "lent" / "__init__.py").write_text("")
    (tmp_path / "lent" / "helping.py").write_text("FACTOR = 3\n")
    (tmp_path / "lent" / "flows.py").write_text(
        dedent("""
        import msgspec
        from shunter import Flow
        from shunter.flow.sinks import Collect
        from . import helping

        class Event(msgspec.Struct):
            number: int

        def event(number):
            return Event(number * helping.FACTOR)

        flow = Flow("lent")
        got = []
        flow.source(range(3)).map(event).key_by("number").map(lambda e: e).sink(Collect(got))
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import lent.flows as flows  # type: ignore[import-not-found]

    hidden = tmp_path.rename(tmp_path.with_name("hidden"))
    try:
        with pytest.raises(FlowError, match="can't be sent"):
            run_on_spark(flows.flow, spark, nodes=2)
    finally:
        hidden.rename(tmp_path)
    run_on_spark(flows.flow, spark, nodes=2)

    assert sorted(each.number for each in flows.got) == [0, 3, 6]
    assert {type(each) for each in flows.got} == {flows.Event}


def test_python_processes_import_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    flow = Flow("imported")
    got: list[str] = []
    flow.source([0]).balanced().map(lambda _: __import__("pyspark").__file__).sink(Collect(got))

    run_on_spark(flow, spark, nodes=1)

    assert "pyspark.zip" not in got[0]


def test_a_session_is_used_again(spark: SparkSession) -> None:
    assert spark_session() is spark
    assert spark_session("local[2]") is spark


def test_a_second_master_is_refused(spark: SparkSession) -> None:
    with pytest.raises(FlowError, match="has a Spark session on 'local\\[2\\]' already"):
        spark_session("local[1]")


@pytest.mark.usefixtures("spark")
def test_the_command_runs_a_flow_on_spark(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        dedent(f"""
        from shunter import Flow
        from shunter.flow.sinks import WriteJsonLines

        flow = Flow("counted")
        texts = flow.source(range(5)).to_all().map(str)
        texts.sink(WriteJsonLines("{tmp_path}/out.jsonl"), workers=1)
        """)
    )
    words = ["run", str(tmp_path / "counted.py"), "--on", "spark"]

    done = CliRunner().invoke(app, [*words, "--json"])
    refused = CliRunner().invoke(app, [*words, "--checkpoints", str(tmp_path)])

    assert done.exit_code == 0, done.output
    stages = msgspec.json.decode(done.stdout)["stages"]
    assert [(stage["taken"], stage["given"]) for stage in stages] == [(0, 5), (10, 10), (10, 0)]
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 10
    assert "--checkpoints" in str(refused.exception)
