"""What can be refused without Spark is refused within two seconds, and no Java is started."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from shunter import Flow
from shunter.errors import FlowError
from shunter.flow.runners.spark import runner as module
from shunter.flow.sinks import Collect, WriteCsv, WriteJsonLines, WriteParquet
from shunter.flow.sources import CsvRows, JsonLines, ParquetRows, Watermarked
from system import fork_server

SECONDS = 2.0

FLOW = """
from shunter import Flow
from shunter.flow.sinks import WriteJsonLines
from shunter.flow.sources import JsonLines

{lines}
"""

JAVA = "#!/bin/sh\ntouch {mark}\nexit 1\n"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(module, "spark_session", fail)


def flow_of(source: object, sink: object = None) -> Flow:
    flow = Flow("refused")
    flow.source(source).sink(Collect([]) if sink is None else sink)
    return flow


@pytest.mark.parametrize(
    "source",
    [
        JsonLines("none.jsonl"),
        CsvRows("none.csv"),
        ParquetRows("none/*.parquet"),
        Watermarked(JsonLines("none.jsonl"), time="at"),
    ],
)
def test_input_that_is_not_there(source: object) -> None:
    with pytest.raises(FlowError, match=r"stage '.*': none.*: there is no such file"):
        flow_of(source).run()


@pytest.mark.parametrize("kind", [WriteJsonLines, WriteCsv, WriteParquet])
def test_a_folder_for_output_that_is_not_there(kind: type) -> None:
    with pytest.raises(FlowError, match=r"there is no folder .*none; make it first"):
        flow_of([1], kind("none/out")).run()


def test_output_that_has_the_name_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").mkdir()
    with pytest.raises(FlowError, match="is a folder, and would become a file"):
        flow_of([1], WriteJsonLines(tmp_path / "out.jsonl")).run()


def test_a_generator() -> None:
    with pytest.raises(FlowError, match="read only once, and in this process alone"):
        flow_of(number for number in range(3)).run()


def test_a_generator_as_a_stream(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"read only once; .* without --stream"):
        flow_of(number for number in range(3)).run(stream=True, checkpoints=tmp_path / "new")


def test_a_stream_without_checkpoints() -> None:
    with pytest.raises(FlowError, match="a stream needs a folder"):
        flow_of([1]).run(stream=True)


def test_a_stream_in_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FlowError, match="is no checkpoint of a stream, and is not empty"):
        flow_of([1]).run(stream=True, checkpoints=tmp_path)


def test_a_stream_on_a_connect_server(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="Spark Connect has not got"):
        flow_of([1]).run(stream=True, checkpoints=tmp_path / "new", remote="sc://h:1")


def test_a_frame_in_a_stream(tmp_path: Path) -> None:
    flow = Flow("refused")
    flow.source([{"n": 1}]).frame(lambda frame: frame).sink(Collect([]))
    with pytest.raises(FlowError, match="sees a batch, and not the stream"):
        flow.run(stream=True, checkpoints=tmp_path / "new")


def test_a_flow_that_does_not_check() -> None:
    flow = Flow("refused")
    flow.source([1]).map(lambda number: number, name="lonely")
    with pytest.raises(FlowError, match="lonely"):
        flow.run()


def test_an_unknown_option() -> None:
    with pytest.raises(FlowError, match="there is no option 'checkpoint' of a run"):
        flow_of([1]).run(checkpoint="here")


def test_settings_for_a_server_that_runs() -> None:
    with pytest.raises(FlowError, match="can't be set on a Spark Connect server"):
        flow_of([1]).run(remote="sc://h:1", conf={"spark.driver.memory": "2g"})


def test_files_that_executors_elsewhere_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shunter.flow.runners.spark.preflight.check_reachable", lambda _: None)
    with pytest.raises(AssertionError, match="Spark was started"):
        flow_of(JsonLines("none.jsonl")).run(master="spark://h:7077")


@pytest.mark.parametrize(
    ("lines", "words", "said"),
    [
        ('flow = Flow("f"); flow.source(JsonLines("no.jsonl")).sink(print)', [], "no such file"),
        (
            'flow = Flow("f"); flow.source([1]).sink(WriteJsonLines("no/out.jsonl"))',
            [],
            "there is no folder",
        ),
        (
            'flow = Flow("f"); flow.source(iter([1])).sink(print)',
            ["--stream", "--checkpoints", "new"],
            "read only once",
        ),
        ('flow = Flow("f"); flow.source([1]).sink(print)', ["--stream"], "--checkpoints"),
        ('flow = Flow("f"); flow.source([1])', [], "stage"),
        ('flow = Flow("f"); flow.source([1]).sink(print)', ["--conf", "memory=4g"], "no setting"),
        (
            'flow = Flow("f"); flow.source([1]).sink(print)',
            ["--conf", "spark.a=4", "--on", "local"],
            "--conf is for --on spark",
        ),
    ],
)
def test_the_command_says_so(lines: str, words: list[str], said: str, tmp_path: Path) -> None:
    java = flow_and_java(lines, tmp_path)
    command = ["flow", "run", "flow.py", *words]
    environ = {"JAVA_HOME": str(tmp_path)}
    done = fork_server.run(command, folder=tmp_path, within=60, environ=environ)

    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert not java.exists()


def test_the_command_says_so_at_once(tmp_path: Path) -> None:
    """As users start it, with all its imports."""
    java = flow_and_java(
        'flow = Flow("f"); flow.source([1]).sink(WriteJsonLines("no/o"))', tmp_path
    )
    before = _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "shunter", "flow", "run", "flow.py"],
        cwd=tmp_path, env={**os.environ, "JAVA_HOME": str(tmp_path)}, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "there is no folder" in " ".join(done.stderr.split())
    assert not java.exists()
    assert _processor_seconds() - before < SECONDS


def flow_and_java(lines: str, folder: Path) -> Path:
    """Write a flow, and a Java that leaves a mark where it is started; return the mark."""
    (folder / "flow.py").write_text(FLOW.format(lines=lines))
    java, mark = folder / "bin" / "java", folder / "java-was-started"
    java.parent.mkdir()
    java.write_text(JAVA.format(mark=mark))
    java.chmod(0o755)
    return mark


def _processor_seconds() -> float:
    """What our child processes took: other tests on this machine do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
