"""A Spark session that can't be had says why, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.runners.spark.session import driver_java
from shunter.flow.runners.spark.session import spark_session as module
from shunter.flow.runners.spark.session.spark_session import spark_session
from system import fork_server

FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines

flow = Flow("numbers")
flow.source([1, 2, 3]).sink(WriteJsonLines("out.jsonl"))
"""


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be as if none were started; a test that starts one fails."""

    def fail(*_: object) -> None:
        raise AssertionError("Java was started")

    monkeypatch.setattr(module, "running_session", lambda: None)
    monkeypatch.setattr(module, "_launched", fail)


def java_that_says(version: str, folder: Path) -> Path:
    return java_that_does(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", folder)


def java_that_does(text: str, folder: Path) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(text)
    java.chmod(0o755)
    return folder


@pytest.mark.usefixtures("no_session")
def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(FlowError, match=r"there is none in JAVA_HOME=.*apt-get install openjdk-17"):
        spark_session()


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(("version", "shown"), [("1.8.0_392", "8"), ("11.0.2", "11")])
def test_a_java_that_is_too_old(
    version: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(version, tmp_path)))

    with pytest.raises(FlowError, match=rf"Java 17 or newer, and .* is {shown}; .*JAVA_HOME"):
        spark_session()


@pytest.mark.usefixtures("no_session")
def test_no_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FlowError, match=r"there is none on the PATH; .*apt-get install openjdk-17"):
        spark_session()


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no program at all", "can't be run .*apt-get install openjdk-17"),
        ("#!/bin/sh\nexit 1\n", "is of an unknown version; .*apt-get install openjdk-17"),
        ("#!/bin/sh\nexec sleep 9\n", "can't be run .*timed out"),
    ],
)
def test_a_java_that_does_not_work(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_java, "JAVA_SECONDS", 0.5)
    monkeypatch.setenv("JAVA_HOME", str(java_that_does(text, tmp_path)))

    with pytest.raises(FlowError, match=said):
        spark_session()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Spark needs Java 17, and there is none in JAVA_HOME"),
        (["--master", "here"], "'here' is no master of Spark's"),
        (["--master", "spark://127.0.0.1:1"], "can't be reached"),
    ],
)
def test_the_command_says_it_in_one_line_and_publishes_nothing(
    words: list[str], said: str, tmp_path: Path
) -> None:
    flow = tmp_path / "flow.py"
    flow.write_text(FLOW)
    java = {"JAVA_HOME": str(java_that_says("17.0.1", tmp_path) if words else tmp_path)}
    command = ["flow", "run", str(flow), "--on", "spark", *words]
    told = fork_server.run(command, folder=tmp_path, within=60, environ=java)

    assert told.returncode == 2
    assert told.stdout == ""
    assert said in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.usefixtures("no_session")
def test_a_master_that_does_not_answer() -> None:
    with pytest.raises(FlowError, match=r"spark://127.0.0.1:1 can't be reached .*; start it"):
        spark_session("spark://127.0.0.1:1")


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("master", ["here", "spark://nowhere", "mesos://h:1", ""])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(FlowError, match="is no master of Spark's; write local"):
        spark_session(master)


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)

    with pytest.raises(FlowError, match=r"pip install 'shunter\[spark\]'"):
        spark_session()
