"""The whole system under seeded faults: nothing that is promised breaks, and bugs are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from long_runs import IS_LONG
from shunter.model.worker import WorkerKind
from shunter.testing.simulation.generator import scenario_of
from shunter.testing.simulation.scenario import FaultKind, Scenario
from shunter.testing.simulation.simulator import simulate

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
DOCUMENT = PROJECT / "docs" / "simulation.md"
FEW = {FaultKind.PACKET_LOSS, FaultKind.DUPLICATION, FaultKind.LOST_ANSWERS}
"""What befalls some kinds of peers only: of a few seeds it may be that none has it."""

SOME_SEEDS = "1..300" if IS_LONG else "1..60"

sys.path.insert(0, str(HERE))
from planted_bugs import BUGS  # noqa: E402


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=check,
        env=environment,
        cwd=PROJECT,
    )


@pytest.mark.timeout(600)
def test_everything_holds_over_many_seeds() -> None:
    told = run("-m", "shunter.testing.simulation", "--seeds", SOME_SEEDS, "--json", check=False)
    found: dict[str, Any] = json.loads(told.stdout)

    assert found["violations"] == []
    assert told.returncode == 0
    missed = {step for step, times in found["transitions"].items() if not times}
    # Parked, signalled and woken jobs have campaigns of their own: test_stepped_simulation.py
    # and test_workflow_simulation.py.
    missed -= {step for step in missed if step.startswith("waiting") or step.endswith("signalled")}
    missed.discard("in progress parked")
    rare = {"unplaced", "released", "cancelled", "put back"}
    assert missed <= {"queued unplaced", *(f"dispatching {event}" for event in rare)}
    assert {kind for kind, times in found["faults"].items() if not times} <= FEW


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    program = (
        "import sys; from shunter.testing.simulation.campaign import be_quiet; be_quiet();"
        "from shunter.testing.simulation.generator import scenario_of;"
        "from shunter.testing.simulation.simulator import simulate;"
        "sys.stdout.buffer.write(b'\\n'.join("
        "simulate(scenario_of(seed)).trace_bytes() for seed in range(1, 7)))"
    )

    first, second = run("-c", program).stdout, run("-c", program).stdout

    assert len(first) > 1000
    assert first == second


def test_some_scenarios_have_each_kind_of_peer_and_all_can_be_written_down() -> None:
    scenarios = [scenario_of(seed) for seed in range(1, 41)]
    kinds = {worker.kind for scenario in scenarios for worker in scenario.workers}

    assert kinds == {WorkerKind.FULL, WorkerKind.HTTP, WorkerKind.UDP}
    assert any(scenario.udp_clients for scenario in scenarios)
    assert any(job.callback for scenario in scenarios for job in scenario.jobs)
    for scenario in scenarios:
        written = msgspec.json.encode(scenario)
        assert msgspec.json.decode(written, type=Scenario) == scenario


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seeds many", "no seed"),
        ("--seeds 5..1", "no seed"),
        ("--seeds 1 --faults kil", "'kil' is not a valid FaultKind; there are kill"),
        ("--seeds 1 --processes 0", "whole number from 1"),
        ("--scenario nowhere.json", "nowhere.json holds no scenario"),
        ("--scenario pyproject.toml", "pyproject.toml holds no scenario"),
    ],
)
def test_a_command_that_makes_no_sense_tries_nothing_and_says_so(words: str, said: str) -> None:
    told = run("-m", "shunter.testing.simulation", *words.split(), check=False)

    assert told.returncode == 2
    assert said in told.stderr
    assert told.stdout == ""


def test_another_seed_gives_another_trace() -> None:
    assert scenario_of(1) != scenario_of(2)
    assert simulate(scenario_of(1)).trace_bytes() != simulate(scenario_of(2)).trace_bytes()


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What came of each planted bug, all of them in one process."""
    told = run(str(HERE / "planted_bugs.py"), "--known", check=False)
    assert told.returncode == 0, told.stderr
    return {each["name"]: each for each in map(json.loads, told.stdout.splitlines())}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, found: dict[str, Any]) -> None:
    assert found[name]["seeds"] is not None, f"{BUGS[name].what}: not found"


@pytest.mark.timeout(600)
def test_a_failing_seed_is_shrunk_and_told() -> None:
    told = run(str(HERE / "planted_bugs.py"), "--story", "lease_forgotten")

    assert "“no two runs of a job overlap” did not hold" in told.stdout
    assert "Shrunk from" in told.stdout
    assert "What goes wrong" in told.stdout


def test_the_document_lists_every_planted_bug_and_every_fault() -> None:
    text = DOCUMENT.read_text("utf-8")

    assert [bug.what for bug in BUGS.values() if bug.what not in text] == []
    assert [kind for kind in FaultKind if f"`{kind}`" not in text] == []
