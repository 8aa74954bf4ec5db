"""The units are ones that systemd takes, keep their promises, and call commands that there are."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.settings_files import DEPLOY, loaded
from shunter.model.lease import LeaseTerms
from shunter.settings import Settings

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/shunter/bin/shunter"

HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictNamespaces": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "UMask": "0077",
    "Restart": "always",
    "LimitNOFILE": "65536",
}


def entries(unit: Path) -> list[tuple[str, str]]:
    lines = [line for line in unit.read_text().splitlines() if line and line[0] not in "#["]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def verified(unit: Path, folder: Path) -> str:
    """Return what systemd has to say about a unit whose program is where ours is."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    text = unit.read_text().replace(PROGRAM, sys.executable)
    copy = folder / unit.name
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit {done.returncode}")


def test_there_are_units() -> None:
    assert [unit.name for unit in UNITS] == [
        "shunter-dispatcher.service",
        "shunter-engine@.service",
        "shunter-worker@.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    assert verified(unit, tmp_path) == ""


def test_systemd_would_say_what_is_wrong(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "broken.service"
    broken.parent.mkdir()
    broken.write_text(f"[Service]\nExecStart={PROGRAM}\nProtectSystems=strict\n")

    assert "ProtectSystems" in verified(broken, tmp_path)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_unit_is_hardened(unit: Path) -> None:
    found = dict(entries(unit))

    assert {key: found.get(key) for key in HARDENED} == HARDENED
    assert found["User"] != "root"
    assert "MemoryMax" in found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_command_is_one_of_ours_with_options_that_it_has(unit: Path) -> None:
    [line] = [value for key, value in entries(unit) if key == "ExecStart"]
    program, command, *words = shlex.split(line)
    done = subprocess.run(
        [sys.executable, "-m", "shunter", command, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert program == PROGRAM
    options = [word for word in words if word.startswith("--")]
    assert options
    for option in options:
        assert re.search(rf"{option}\b", done.stdout), option


def test_a_worker_has_the_time_to_give_its_jobs_back() -> None:
    found = dict(entries(DEPLOY / "systemd" / "shunter-worker@.service"))
    worker = Settings().worker
    needed = worker.grace_seconds + 2 * worker.kill_grace_seconds + LeaseTerms().kill_within

    assert float(found["TimeoutStopSec"].removesuffix("s")) > needed
    assert found["KillMode"] == "mixed"  # else SIGTERM interrupts every handler
    assert found["OOMPolicy"] == "continue"  # else one large job stops all others


@pytest.mark.parametrize("name", ["dispatcher", "worker"])
def test_the_example_settings_are_taken(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "examples" / f"{name}.toml").read_text()
    [unit] = [unit for unit in UNITS if name in unit.name]
    environ = dict(
        value.split("=", 1) for key, value in entries(unit) if key == "Environment"
    )  # %d stands for the folder of credentials, and is a path like any other

    settings = loaded(text, environ, tmp_path)

    assert settings != Settings()
