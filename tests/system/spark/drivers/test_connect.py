"""Flows on a Spark Connect server, from a process that has neither Java nor a driver."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance.store.given import ended
from shunter.cli.flows import app
from shunter.errors import FlowError
from shunter.flow.runners.spark.session.spark_session import spark_session
from shunter.store.sqlite import SQLiteStore
from shunter.testing.spark_connect import LocalConnectServer
from system.spark.drivers.connect_client import CASES
from system.yard import until

ACTIVE = "pyspark.sql.SparkSession.getActiveSession"
pytestmark = pytest.mark.timeout(240)

SESSION_ENDED = "Closing session"
TESTS = Path(__file__).parents[3]
FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines

def doubled(number):
    return 2 * number

flow = Flow("numbers")
flow.source(range(50)).map(doubled).sink(WriteJsonLines("out.jsonl"))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalConnectServer]:
    with LocalConnectServer(tmp_path_factory.mktemp("connect")) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def said(server: LocalConnectServer, folder: Path) -> dict[str, Any]:
    """What a client without Java tells of all that it has tried."""

    async def one_job() -> None:
        store = SQLiteStore(str(folder / "jobs.db"))
        await store.open()
        await ended(store, "done")
        await store.close()

    asyncio.run(one_job())
    (folder / "flow.py").write_text(FLOW)
    script = str(Path(__file__).with_name("connect_client.py"))
    words = [script, server.url, str(folder), f"sqlite:///{folder / 'jobs.db'}"]
    environ = {**os.environ, "JAVA_HOME": "/nowhere", "PYTHONPATH": str(TESTS)}
    told = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=folder, env=environ,
        timeout=200, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_flows_have_the_same_output_there(said: dict[str, Any]) -> None:
    assert said["parity"] == dict.fromkeys(CASES, True)


def test_a_bad_event_ends_a_run_with_the_same_words(said: dict[str, Any]) -> None:
    assert "stage 'inverse': ZeroDivisionError: division by zero, at the event 0" in said["stopped"]
    assert "return 12 / number" in said["stopped"]
    assert "java" not in said["stopped"].lower()


def test_dataframes_of_the_session_are_read_and_made(said: dict[str, Any]) -> None:
    assert said["own"] == [0, 1, 2, 3, 4, 5]
    assert said["transformed"] == [1, 2, 3]


def test_finished_jobs_are_rows_there_too(said: dict[str, Any]) -> None:
    assert said["history"] == 1


def test_a_run_is_cancelled(said: dict[str, Any]) -> None:
    assert said["cancelled"] is True


def test_the_session_is_that_of_the_process(said: dict[str, Any]) -> None:
    assert said["again"] is True
    assert "has a Spark session on 'a Spark Connect server' already" in said["classic"]
    assert "name one of them" in said["both"]


def test_what_connect_has_not_got_is_refused(said: dict[str, Any]) -> None:
    assert "a stream needs a driver of its own" in said["stream"]
    assert "stage 'rows': its DataFrame was made in another session" in said["foreign"]


def test_the_command_runs_a_flow_there(
    said: dict[str, Any], folder: Path, server: LocalConnectServer
) -> None:
    assert "doubled" in said["command"]
    lines = (folder / "out.jsonl").read_text().split()
    assert list(map(int, lines)) == [2 * number for number in range(50)]
    until(lambda: has_ended(said["session"], server.log))


def has_ended(session: str, log: Path) -> bool:
    """True if the server has closed this session."""
    return any(SESSION_ENDED in line and session in line for line in log.read_text().splitlines())


# ---- bad input, without a server


def test_a_server_that_is_not_there_is_named(said: dict[str, Any]) -> None:
    assert "sc://127.0.0.1:1 can't be reached" in said["nowhere"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spark", "--remote", "spark://h:1"], "'spark://h:1' is no address of Spark Connect"),
        (["spark", "--remote", "sc://h:1", "--master", "local[1]"], "stands in for --master"),
        (["spark", "--remote", "sc://h:1", "--stream"], "does batch runs alone"),
        (["local", "--remote", "sc://h:1"], "--remote is for --on spark"),
    ],
)
def test_a_wrong_word_is_explained(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.py").write_text(FLOW)
    told = CliRunner().invoke(app, ["run", "flow.py", "--on", *words])

    assert told.exit_code == 1
    assert message in str(told.exception)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_process_with_a_driver_gets_no_remote_session(monkeypatch: pytest.MonkeyPatch) -> None:
    classic = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
    monkeypatch.setattr(ACTIVE, classmethod(lambda _: classic))

    with pytest.raises(FlowError, match=r"has a Spark session on 'local\[2\]' already"):
        spark_session(remote="sc://127.0.0.1:1")


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.setattr(ACTIVE, classmethod(lambda _: None))

    with pytest.raises(FlowError, match=r"pip install 'shunter\[connect\]'"):
        spark_session(remote="sc://127.0.0.1:1")
