"""Finished jobs as a DataFrame, and the report about them: 305 jobs that real workers did."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.store.given import ended, running
from shunter.errors import FlowError
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.history import finished_jobs, register
from shunter.flow.sources import JobHistory
from shunter.reporting.document import HistoryReport
from shunter.reporting.flow import report_flow
from shunter.reporting.sink import WriteReport
from shunter.store.registry import store_for
from system.yard import Yard, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shunter.testing.mongod import LocalMongod

APP = f"{Path(__file__).parent / 'history_app.py'}:app"
QUICK, SLOW, BROKEN, CANCELLED = 200, 60, 40, 5


def work_through(yard: Yard) -> str:
    """Have jobs done by two workers; return the URL of the store."""
    station = yard.dispatcher()
    for number in (1, 2):
        config = yard.config(f"worker-{number}", {"worker.dispatchers": [station.backend]})
        yard.process(("worker", "--app", APP, "--config", str(config)), f"worker-{number}")
    client = yard.client(station)
    with_handles = [client.submit("quick", number) for number in range(QUICK)]
    with_handles += [client.submit("slow", 0.01) for _ in range(SLOW)]
    with_handles += [client.submit("broken", number) for number in range(BROKEN)]
    late = client.with_options(delay=3600)
    for _ in range(CANCELLED):
        handle = late.submit("quick", 0)
        handle.cancel()
        with_handles.append(handle)
    total = len(with_handles)

    def has_ended() -> bool:
        counts = client.standing().backlog
        return sum(count for _, status, count in counts if status.is_final) == total

    until(has_ended, what="all jobs have ended")
    return str(station.settings["store.url"])


@pytest.fixture(scope="module")
def store(shared_yard: Yard) -> str:
    return work_through(shared_yard)


@pytest.fixture(scope="module")
def by_hand(store: str) -> list[dict[str, Any]]:
    """The records as the store's file has them."""
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as connection:
        rows = connection.execute("SELECT id, type, status, doc FROM jobs").fetchall()
    return [
        {**json.loads(doc), "id": job_id, "type": kind, "status": status}
        for job_id, kind, status, doc in rows
    ]


def moments(records: list[dict[str, Any]], kind: str) -> list[tuple[float, float]]:
    """How long the jobs of a type waited and ran, as far as they did."""
    runs = [each for each in records if each["type"] == kind and each.get("execution")]
    started = [(each, each["execution"]) for each in runs if "started" in each["execution"]]
    return [
        (run["started"] - each["created"], run["ended"] - run["started"]) for each, run in started
    ]


def ranked(values: list[float], part: float) -> float:
    return sorted(values)[math.ceil(len(values) * part) - 1]


def reported(tmp_path: Path, source: Any, spark: SparkSession | None = None) -> HistoryReport:
    sink = WriteReport(tmp_path / "report.html", made=time.time(), since=None)
    flow = report_flow(source, sink)
    if spark is None:
        flow.run("local")
    else:
        run_on_spark(flow, spark, nodes=2)
    assert sink.report is not None
    return sink.report


# ---- the DataFrame


def test_finished_jobs_are_rows(
    store: str, by_hand: list[dict[str, Any]], spark: SparkSession
) -> None:
    rows = spark.read.format("shunter").option("store", store).load().collect()

    known = {each["id"]: each for each in by_hand}
    assert {row.id for row in rows} == set(known)
    assert Counter((row.type, row.status) for row in rows) == {
        ("quick", "completed"): QUICK,
        ("quick", "cancelled"): CANCELLED,
        ("slow", "completed"): SLOW,
        ("broken", "failed"): BROKEN,
    }
    for row in rows:
        job = known[row.id]
        run = job.get("execution", {})
        assert row.created.timestamp() == pytest.approx(job["created"], abs=1e-6)
        assert row.attempt == job.get("attempt", 0)
        assert row.worker_id == run.get("worker_id")
        if "started" in run:
            assert row.run_seconds == run["ended"] - run["started"]
            assert row.waiting_seconds == run["started"] - job["created"]
            assert row.dispatcher_id == job["dispatcher"]["id"]
    assert {(row.error_kind, row.error.split("\n")[0]) for row in rows if row.error_kind} == {
        ("exception", "ValueError: no such <order>"),
        ("exception", "KeyError: 'total'"),
        ("cancelled", next(row.error for row in rows if row.status == "cancelled").split("\n")[0]),
    }


def test_options_and_filters_make_fewer_rows(store: str, spark: SparkSession) -> None:
    def count(where: str = "true", **options: str) -> int:
        jobs = spark.read.format("shunter").option("store", store).options(**options).load()
        return int(jobs.where(where).count())

    assert count(type="slow", since="1h") == SLOW
    assert count(status="failed, cancelled") == BROKEN + CANCELLED
    assert count(since="2999-01-01") == 0
    assert count("type = 'quick' AND status = 'cancelled'") == CANCELLED
    assert count("type IN ('slow', 'broken') AND ended > timestamp'2020-01-01'") == SLOW + BROKEN


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no store was named"),
        ({"store": "sqlite:////nowhere/jobs.db"}, "there is no such file"),
        ({"store": "shunter.db"}, "store.url: found shunter.db"),
        ({"store": "memory://"}, "another process's memory"),
        ({"store": "sqlite:////x.db", "status": "queued"}, "no job ends as 'queued'"),
        ({"store": "sqlite:////x.db", "since": "soon"}, "'soon' is no moment"),
        ({"store": "sqlite:////x.db", "path": "x"}, "no option 'path'"),
    ],
)
def test_a_wrong_option_is_explained(
    options: dict[str, str], said: str, spark: SparkSession
) -> None:
    with pytest.raises(Exception, match=said):
        spark.read.format("shunter").options(**options).load().count()


def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path, spark: SparkSession) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE jobs (x)")

    with pytest.raises(Exception, match="another program's database"):
        spark.read.format("shunter").option("store", f"sqlite:///{other}").load().count()


def test_jobs_in_mongodb_are_rows(mongod: LocalMongod, spark: SparkSession) -> None:
    register(spark)
    url = mongod.url("history")
    asyncio.run(some_jobs(url))
    rows = spark.read.format("shunter").option("store", url).load().groupBy("status").count()

    assert dict(rows.collect()) == {"completed": 3}
    with pytest.raises(Exception, match="no dispatcher has used this database"):
        spark.read.format("shunter").option("store", mongod.url("other")).load().count()


async def some_jobs(url: str) -> None:
    """Keep jobs as a dispatcher does: three that have completed, and one that runs."""
    store = store_for(url)
    await store.open()
    for name in "abc":
        await ended(store, name)
    await running(store, "d")
    await store.close()


# ---- the report


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_the_report_has_the_numbers_of_the_store(
    runner: str,
    store: str,
    by_hand: list[dict[str, Any]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if runner == "local":
        report = reported(tmp_path, JobHistory(store))
    else:
        session = request.getfixturevalue("spark")
        report = reported(tmp_path, DataFrameSource(finished_jobs(store)), session)

    total = QUICK + SLOW + BROKEN + CANCELLED
    assert (report.jobs, report.completed, report.failed, report.cancelled) == (
        total, QUICK + SLOW, BROKEN, CANCELLED,
    )  # fmt: skip
    assert [each.type for each in report.types] == ["quick", "slow", "broken"]
    for each in report.types:
        waited, ran = zip(*moments(by_hand, each.type), strict=True)
        assert each.waiting is not None
        assert each.run is not None
        assert each.waiting.p50 == pytest.approx(ranked(list(waited), 0.5))
        assert each.waiting.p95 == pytest.approx(ranked(list(waited), 0.95))
        assert each.run.p95 == pytest.approx(ranked(list(ran), 0.95))
        assert each.run.max == pytest.approx(max(ran))
    assert [(each.message, each.count) for each in report.types[2].errors] == [
        ("ValueError: no such <order>", 26),
        ("KeyError: 'total'", 14),
    ]
    assert sum(each.completed + each.failed + each.cancelled for each in report.throughput) == total
    on = Counter(
        each["execution"]["worker_id"]
        for each in by_hand
        if each.get("execution", {}).get("worker_id")
    )
    assert {each.worker: each.jobs for each in report.workers} == on
    spent = sum(ran for kind in ("quick", "slow", "broken") for _, ran in moments(by_hand, kind))
    assert report.first is not None
    assert report.last is not None
    at_once = sum(each.jobs_at_once for each in report.workers)
    assert at_once * (report.last - report.first) == pytest.approx(spent, abs=1e-3)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 4
    assert f"<b>{total}</b><span>finished jobs</span>" in page
    assert "no such &lt;order&gt;" in page
    assert "http://www.w3.org" in page
    assert 'src="http' not in page


def test_a_store_without_finished_jobs_has_a_report_that_says_so(
    tmp_path: Path, yard: Yard
) -> None:
    station = yard.dispatcher()
    report = reported(tmp_path, JobHistory(str(station.settings["store.url"])))

    assert report.jobs == 0
    assert "No finished jobs in this time" in (tmp_path / "report.html").read_text()


def test_the_command_writes_a_page_and_prints_a_table(
    store: str, shared_yard: Yard, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = ("report", "--on", "local", "--store", store, "--output", str(page))
    told = shared_yard.shunter(*words)

    assert told.returncode == 0, told.stderr
    assert (
        "305 finished jobs since 24h: 260 completed, 40 failed (13 %), 5 cancelled" in told.stdout
    )
    assert str(page) in told.stdout
    assert page.read_text().startswith("<!doctype html>")

    told = shared_yard.shunter("report", "--on", "local", "--store", store, "--json")
    assert json.loads(told.stdout)["jobs"] == 305
    assert not (shared_yard.folder / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--store", "sqlite:///none.db"), 2, "there is no such file"),
        (("--store", "none"), 2, "store.url"),
        (("--since", "yesterday"), 2, "'yesterday' is no moment"),
        (("--output", "none/report.html"), 2, "there is no such folder"),
    ],
)
def test_a_wrong_word_is_explained_before_spark_starts(
    words: tuple[str, ...], code: int, said: str, store: str, shared_yard: Yard
) -> None:
    given = words if "--store" in words else ("--store", store, *words)
    on = ("--on", "local") if "--output" in words else ()
    told = shared_yard.shunter("report", *given, *on)

    assert told.returncode == code
    assert said in " ".join(told.stderr.split())


def test_a_position_goes_on_where_it_was(store: str) -> None:
    whole = JobHistory(store)
    whole.open(None)
    first = whole.read(70)
    assert first is not None
    position = json.loads(json.dumps(whole.position()))
    whole.close()

    again, rest = JobHistory(store), []
    again.open(position)
    while (events := again.read(50)) is not None:
        rest += events
    again.close()
    assert len({each["id"] for each in [*first, *rest]}) == 305
    assert len(first) + len(rest) == 305


def test_parts_have_all_jobs_once(store: str) -> None:
    seen = []
    for index in range(5):
        part = JobHistory(store).part(index, 5)
        part.open(None)
        while (events := part.read(1000)) is not None:
            seen += [each["id"] for each in events]
        part.close()
    assert len(seen) == len(set(seen)) == 305


def test_a_store_that_is_not_there_is_a_flow_error() -> None:
    source = JobHistory("sqlite:////nowhere/jobs.db")
    source.open(None)
    with pytest.raises(FlowError, match="there is no such file"):
        source.read(1)
