"""A program that uses Spark Connect, in a process of its own: one can't have both kinds of session.

It prints what came of everything that it tried, as JSON.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from parity import flow_of, output_of
from shunter import Flow
from shunter.cli.flows import app
from shunter.errors import FlowError
from shunter.flow.runners.local import LocalRun
from shunter.flow.runners.port import Stopped
from shunter.flow.runners.spark.batch.run import run_on_spark
from shunter.flow.runners.spark.dataframe_source import DataFrameSource
from shunter.flow.runners.spark.history import register
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.flow.runners.spark.stream.run import stream_on_spark
from shunter.flow.sinks import Collect
from shunter.flow.sources import Ticks

NOWHERE = "sc://127.0.0.1:1"

CASES = (
    "several_outputs",
    "an_instruction_in_the_middle",
    "bad_events_in_letters",
)


def main(remote: str, folder: Path, store: str) -> None:
    nowhere = said(lambda: command(NOWHERE))
    session = spark_session(remote=remote)
    tried: dict[str, Callable[[], Any]] = {
        "command": lambda: command(remote),
        "session": lambda: session.session_id,
        "parity": lambda: {case: is_equal(case, session, folder) for case in CASES},
        "stopped": lambda: run_case("stopped", session, folder / "stopped"),
        "again": lambda: spark_session() is session and spark_session(remote=remote) is session,
        "classic": lambda: spark_session("local[1]"),
        "both": lambda: spark_session("local[1]", remote=remote),
        "stream": lambda: stream_on_spark(a_flow(), session, checkpoints=folder / "stream"),
        "foreign": lambda: run_on_spark(a_foreign_flow(remote), session, nodes=1),
        "own": lambda: own_frame(session),
        "transformed": lambda: transformed(session),
        "cancelled": lambda: cancelled(session),
        "history": lambda: history(session, store),
    }
    found = {name: said(attempt) for name, attempt in tried.items()}
    print(json.dumps({"nowhere": nowhere, **found}))


def command(remote: str) -> str:
    """Run the flow that is in this folder, as `shunter flow run` does, and return what it shows."""
    words = ["run", "flow.py", "--on", "spark", "--remote", remote]
    with redirect_stdout(io.StringIO()) as shown:
        app(words, standalone_mode=False)
    return shown.getvalue()


def said(attempt: Callable[[], Any]) -> Any:
    try:
        return attempt()
    except FlowError as error:
        return f"FlowError: {error}"


def is_equal(case: str, session: SparkSession, folder: Path) -> bool:
    here, there = folder / case / "here", folder / case / "there"
    for each in (here, there):
        each.mkdir(parents=True)
    os.environ["FLOW_CASES"] = str(here)
    LocalRun(flow_of(case), nodes=2).run()
    run_case(case, session, there)
    expected, found = output_of(case, here), output_of(case, there)
    return found.events == expected.events and found.by_key == expected.by_key


def run_case(case: str, session: SparkSession, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    os.environ["FLOW_CASES"] = str(folder)
    run_on_spark(flow_of(case), session, nodes=2)


def a_flow() -> Flow:
    flow = Flow("numbers")
    flow.source([1, 2, 3]).map(increased).sink(Collect())
    return flow


def a_foreign_flow(remote: str) -> Flow:
    other = SparkSession.builder.remote(remote).create()
    atexit.register(other.stop)  # else its client may wait forever when Python ends
    frame = other.range(3)
    flow = Flow("foreign")
    flow.source(DataFrameSource(lambda _: frame), name="rows").sink(Collect())
    return flow


def own_frame(session: SparkSession) -> list[int]:
    flow, found = Flow("own"), Collect()
    rows = flow.source(DataFrameSource(lambda spark: spark.range(0, 6, 1, 3)))
    rows.map(identity).sink(found)
    flow.run(on=session)
    return sorted(found.events)


def transformed(session: SparkSession) -> list[int]:
    made = a_flow_of_rows().transform(session.range(3), "id long")
    return sorted(row.id for row in made.collect())


def a_flow_of_rows() -> Flow:
    flow = Flow("rows")
    flow.source([]).map(lambda row: {"id": row["id"] + 1}).sink(Collect())
    return flow


def cancelled(session: SparkSession) -> bool:
    """Have a run that never ends stopped, and see that it was soon; else once more."""

    def seconds_until_stopped() -> float:
        flow, began = Flow("endless"), time.monotonic()
        flow.source(Ticks(0.05)).sink(Collect())
        try:
            run_on_spark(flow, session, nodes=1, should_stop=lambda: time.monotonic() > began + 2)
        except Stopped:
            return time.monotonic() - began
        raise AssertionError("it ended by itself")

    return any(seconds_until_stopped() < 15 for _ in range(3))


def history(session: SparkSession, store: str) -> int:
    register(session)
    return int(session.read.format("shunter").option("store", store).load().count())


def increased(number: int) -> int:
    return number + 1


def identity(row: dict[str, int]) -> int:
    return row["id"]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
