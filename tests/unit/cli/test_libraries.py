"""`shunter doctor` says which libraries Spark lacks here, and what to type."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from shunter.cli import libraries, machine
from shunter.cli.diagnosis import State, Surroundings
from shunter.settings import Settings

HERE = Surroundings(Settings(), {})


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is installed, as tests have it; what is not named is not there."""
    installed: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    return installed


def test_here_all_of_it_is_there() -> None:
    findings = list(libraries.spark(HERE))

    assert [finding.name for finding in findings] == ["pyspark", "pandas", "pyarrow"]
    assert {finding.state for finding in findings} == {State.OK}
    assert "not there" not in libraries.extras(HERE).fact


@pytest.mark.parametrize(
    ("name", "version", "fact"),
    [
        ("pyspark", None, "not installed"),
        ("pyspark", "3.5.1", "3.5.1, and 4.1 or newer is needed"),
        ("pyspark", "4.4.0", "4.4.0, and one older than 4.4 is needed"),
        ("pandas", None, "not installed"),
        ("pandas", "3.0.1", "3.0.1, and one older than 3 is needed"),
        ("pyarrow", "17.0.0", "17.0.0, and 18 or newer is needed"),
    ],
)
def test_what_does_not_fit_is_a_warning_that_says_what_to_type(
    name: str, version: str | None, fact: str, versions: dict[str, str]
) -> None:
    versions |= {"pyspark": "4.3.0", "pandas": "2.3.3", "pyarrow": "26.0.1"}
    versions.pop(name)
    if version is not None:
        versions[name] = version

    found = {finding.name: finding for finding in libraries.spark(HERE)}

    assert found[name].state is State.WARN
    assert found[name].fact == fact
    assert "pip install --upgrade 'shunter[spark]'" in found[name].remedy
    assert {each.state for each in found.values() if each.name != name} == {State.OK}


def test_what_is_there_and_can_not_be_imported_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    [pyspark, *_] = libraries.spark(HERE)

    assert pyspark.state is State.WARN
    assert "can't be imported" in pyspark.fact


def test_extras_are_told_and_never_missed(versions: dict[str, str]) -> None:
    versions["deltalake"] = "1.6.6"
    finding = libraries.extras(HERE)

    assert finding.state is State.OK
    assert finding.fact == (
        "deltalake 1.6.6 (shunter[delta]); not there: grpcio (shunter[connect]), "
        "matplotlib (shunter[report]), cryptography (shunter[codec]), "
        "opentelemetry-api (shunter[otel])"
    )


def test_the_java_on_the_path_is_looked_at(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)

    finding = machine.java(Surroundings(Settings(), {"PATH": str(tmp_path)}))

    assert finding.state is State.WARN
    assert finding.fact == f"Java 11 at {program}"
    assert "apt-get install openjdk-17-jre-headless" in finding.remedy


def test_the_command_tells_of_java_and_spark_without_either(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-m", "shunter", "doctor", "--json"],
        capture_output=True, text=True, cwd=tmp_path, env=environ, check=False, timeout=60,
    )  # fmt: skip

    assert told.returncode == 0, told.stdout + told.stderr
    assert '"name": "pyspark"' in told.stdout
    assert "apt-get install openjdk-17-jre-headless" in told.stdout
