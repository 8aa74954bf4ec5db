"""`shunter flow run`, interrupted by its user or killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from system.flow.engines import COUNTING, is_complete, numbers_file, sums_in
from system.yard import Process, Yard, until

INTERRUPTIBLE = ("env", "--default-signal=INT")


@pytest.fixture
def folder(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLOW_FOLDER", str(yard.folder))
    monkeypatch.setenv("FLOW_PAUSE", "0.02")
    numbers_file(yard.folder, 20_000)
    return yard.folder


def started(yard: Yard, *words: str) -> Process:
    """Start a run that is under way."""
    run = yard.process(("flow", "run", COUNTING, *words), "run", inside=INTERRUPTIBLE)
    until(lambda: any(path.stat().st_size for path in yard.folder.glob(".sums*.part")))
    return run


@pytest.mark.parametrize("on", ["local", "engines"])
def test_an_interrupt_ends_it_with_nothing_published(yard: Yard, folder: Path, on: str) -> None:
    run = started(yard, "--on", on)
    offspring = psutil.Process(run.pid).children(recursive=True)

    run.signal(signal.SIGINT)

    assert run.exit_code() == 130
    assert "Traceback" not in run.said()
    assert not any(each.is_running() for each in offspring)
    assert not list(folder.glob("sums*.jsonl"))


def test_a_run_in_one_process_that_is_killed_goes_on_from_its_checkpoint(
    yard: Yard, folder: Path
) -> None:
    words = ("--on", "local", "--checkpoints", "kept", "--every", "0.2")
    run = started(yard, *words)
    until(lambda: len(list(folder.glob("kept/*.checkpoint"))) == 2)
    run.kill()

    again = yard.shunter("flow", "run", COUNTING, *words, "--json")

    assert again.returncode == 0, again.stderr
    given = {stage["name"]: stage["given"] for stage in json.loads(again.stdout)["stages"]}
    assert 0 < given["numbers"] < 20_000
    assert is_complete(sums_in(folder), 20_000)
    assert not list((folder / "kept").iterdir())
