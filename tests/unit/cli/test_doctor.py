"""`shunter doctor` says what is missing, and how to get it."""

from __future__ import annotations

import io
import json
import resource
import sqlite3
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

from shunter.cli import doctor, machine
from shunter.cli.diagnosis import Finding, State, Surroundings
from shunter.cli.terminal import Terminal
from shunter.settings import Settings
from shunter.settings_sources import load_settings

HERE = Surroundings(Settings(), {})


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def console() -> Terminal:
    return Terminal(file=io.StringIO(), width=160)


def printed(console: Terminal) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def well(_: Surroundings) -> Finding:
    return Finding("water", State.OK, "flows [cold]")


def leaking(_: Surroundings) -> Iterable[Finding]:
    yield Finding("roof", State.WARN, "leaks", "mend it")
    yield Finding("walls", State.OK, "stand")


def gone(_: Surroundings) -> Finding:
    return Finding("door", State.MISSING, "gone", "buy one")


def test_nothing_missing_is_exit_0(console: Terminal) -> None:
    assert doctor.run(None, environ={}, console=console, checks=[well, leaking]) == 0

    assert "flows [cold]" in printed(console)
    assert "mend it" in printed(console)
    assert "Nothing that is needed is missing." in printed(console)


def test_something_missing_is_exit_1_with_the_remedy(console: Terminal) -> None:
    assert doctor.run(None, environ={}, console=console, checks=[well, gone]) == 1

    assert "buy one" in printed(console)
    assert "Something is missing: door." in printed(console)


def test_json_is_an_array_of_findings(console: Terminal) -> None:
    assert doctor.run(None, environ={}, as_json=True, console=console, checks=[leaking, gone]) == 1

    findings = json.loads(printed(console))
    assert [finding["name"] for finding in findings] == ["settings", "roof", "walls", "door"]
    assert findings[1] == {"name": "roof", "state": "warn", "fact": "leaks", "remedy": "mend it"}


def test_wrong_settings_are_a_finding_and_the_rest_goes_on() -> None:
    findings = doctor.examine(None, {"SHUNTER__HTTP__PORT": "web"}, [well])

    assert [finding.state for finding in findings] == [State.MISSING, State.OK]
    assert "SHUNTER__HTTP__PORT: http.port" in findings[0].fact
    assert findings[0].remedy == "correct http.port in SHUNTER__HTTP__PORT"


def test_a_machine_with_all_packages_is_well() -> None:
    for check in (machine.python, machine.packages, machine.sqlite, machine.shared_memory):
        assert check(HERE).state is State.OK


def test_an_old_python_is_missing_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "OLDEST_PYTHON", (sys.version_info[0] + 1, 0))

    assert machine.python(HERE).state is State.MISSING


@pytest.mark.parametrize(
    ("requirement", "state", "fact"),
    [
        ("msgspec>=0.1", State.OK, "msgspec 0."),
        ("msgspec>=999", State.MISSING, "msgspec 0."),
        ("no-such-thing>=1", State.MISSING, "no-such-thing (not installed)"),
        ('no-such-thing>=1; extra == "spark"', State.OK, ""),
    ],
)
def test_packages_are_compared_with_what_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, requirement: str, state: State, fact: str
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: [requirement])

    finding = machine.packages(HERE)

    assert finding.state is state
    assert finding.fact.startswith(fact)


def test_an_old_sqlite_matters_only_to_a_store_in_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    elsewhere = load_settings(None, {}, {"store.url": "mongodb://h:1/x"}).settings

    assert machine.sqlite(HERE).state is State.MISSING
    assert machine.sqlite(Surroundings(elsewhere, {})).state is State.WARN


def fake_java(folder: Path, script: str) -> Surroundings:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Surroundings(Settings(), {"JAVA_HOME": str(folder)})


@pytest.mark.parametrize(
    ("version", "state", "fact"),
    [
        ("17.0.15", State.OK, "Java 17 at"),
        ("21", State.OK, "Java 21 at"),
        ("1.8.0_402", State.WARN, "Java 8 at"),
    ],
)
def test_java_17_is_enough(tmp_path: Path, version: str, state: State, fact: str) -> None:
    surroundings = fake_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2")

    finding = machine.java(surroundings)

    assert finding.state is state
    assert finding.fact.startswith(fact)
    assert bool(finding.remedy) is (state is State.WARN)


def test_no_java_is_a_warning_that_says_what_to_type(tmp_path: Path) -> None:
    for surroundings in (
        Surroundings(Settings(), {"PATH": str(tmp_path)}),
        Surroundings(Settings(), {"JAVA_HOME": str(tmp_path)}),
        fake_java(tmp_path, "exit 1"),
    ):
        finding = machine.java(surroundings)
        assert finding.state is State.WARN
        assert "apt-get install openjdk-17-jre-headless" in finding.remedy


@pytest.mark.parametrize(
    ("soft", "state"),
    [(256, State.WARN), (1024, State.OK), (resource.RLIM_INFINITY, State.OK)],
)
def test_few_open_files_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, soft: int, state: State
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, 4096))

    assert machine.open_files(HERE).state is state


def test_without_shared_memory_a_worker_can_not_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(machine.os, "memfd_create")
    assert machine.shared_memory(HERE).state is State.OK

    monkeypatch.setattr(machine, "SHARED_FOLDER", str(tmp_path / "absent"))
    assert machine.shared_memory(HERE).state is State.MISSING


def test_the_clock_needs_to_be_synchronised_only_among_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    among_hosts = load_settings(None, {}, {"store.url": "mongodb://h:1/x"}).settings
    monkeypatch.setattr(machine, "is_synchronised", lambda: False)

    assert machine.clock(HERE).state is State.OK
    assert machine.clock(Surroundings(among_hosts, {})).state is State.WARN

    monkeypatch.setattr(machine, "is_synchronised", lambda: True)
    assert machine.clock(Surroundings(among_hosts, {})).state is State.OK


def test_a_clock_from_before_the_program_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.time, "time", lambda: 1_000_000.0)

    assert machine.clock(HERE).state is State.WARN
