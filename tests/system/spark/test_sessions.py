"""A Spark session that can't be had says why, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shunter.errors import FlowError
from shunter.flow.spark import session as module
from shunter.flow.spark.session import spark_session


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be as if none were started; a test that starts one fails."""

    class Sessions:
        SparkSession = type("SparkSession", (), {"getActiveSession": staticmethod(lambda: None)})

    monkeypatch.setattr(module, "pyspark", lambda _="": Sessions)


def java_that_says(version: str, folder: Path) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
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
