"""What the guide says of UDP is true: its programs do tasks together with ours and each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter import JobFailed, UdpClient
from shunter.wire.udp.keys import Secret, UdpKey
from shunter.wire.udp.seals import DispatcherSealer, Misaddressed
from system.yard import PATIENCE, Station, Yard

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "udp.md"
PROGRAMS: dict[str, str] = {
    found["name"]: found["code"]
    for found in re.finditer(
        r"^```python\n(?P<code># (?P<name>\w+\.py)\n.*?)^```$",
        PAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
}
LONGEST = 50

Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    place = Yard(tmp_path)
    yield place
    place.close()


@pytest.fixture
def station(yard: Yard) -> Station:
    return yard.dispatcher()


@pytest.fixture
def run(yard: Yard, station: Station) -> Iterator[Run]:
    """Start a program of the guide, with the dispatcher's port for the usual one."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, *words: str) -> subprocess.Popen[str]:
        program = yard.folder / name
        program.write_text(PROGRAMS[name].replace("5555", str(station.udp_port)))
        how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, program, *words], **how))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("name", ["udp_client.py", "udp_calculator.py"])
def test_a_peer_of_one_s_own_is_short_and_knows_nothing_of_shunter(name: str) -> None:
    assert len(PROGRAMS[name].splitlines()) <= LONGEST
    assert "shunter" not in PROGRAMS[name]


@pytest.mark.parametrize("is_ours", [True, False], ids=["our-calculator", "the-guide-s"])
def test_all_clients_of_the_guide_have_tasks_done(
    yard: Yard, station: Station, run: Run, is_ours: bool
) -> None:
    where = f"127.0.0.1:{station.udp_port}"
    if is_ours:
        app = yard.folder / "shout.py"
        app.write_text(PROGRAMS["shout.py"])
        yard.process(["calculator", "--app", str(app), "--dispatcher", where], "calculator")
    else:
        run("udp_calculator.py")

    theirs, ours = run("udp_client.py", "hi there", "ho"), run("udp_tasks.py")

    assert theirs.communicate(timeout=PATIENCE) == ("success HI THERE\nsuccess HO\n", "")
    said = re.findall(r"print\(.*\)  # (.*)", PROGRAMS["udp_tasks.py"])
    assert ours.communicate(timeout=PATIENCE) == ("\n".join([*said, ""]), "")
    done = yard.shunter("submit", "--via", "udp", "--dispatcher", where, "shout", "hi", "--wait")
    assert (done.returncode, done.stdout) == (0, "HI\n"), done.stderr


def test_the_calculator_of_the_guide_says_what_went_wrong_and_goes_on(
    run: Run, station: Station
) -> None:
    calculator = run("udp_calculator.py")

    with UdpClient(("127.0.0.1", station.udp_port)) as client:
        with pytest.raises(JobFailed, match="AttributeError"):
            client.submit("shout", 5).result(PATIENCE)
        with pytest.raises(JobFailed, match="does not fit into a packet"):
            client.submit("shout", "ß" * 480).result(PATIENCE)
        assert client.submit("shout", "still here").result(PATIENCE) == "STILL HERE"
    assert calculator.poll() is None


def test_the_client_of_the_guide_says_why_it_was_refused(run: Run) -> None:
    client = run("udp_client.py", "too long for a name " * 10)

    said, refusal = client.communicate(timeout=PATIENCE)
    assert (client.returncode, said) == (1, "")
    assert "params.task_id" in refusal


def test_a_peer_that_signs_as_the_guide_does_is_understood_and_understands() -> None:
    names: dict[str, Any] = {}
    exec(PROGRAMS["signed.py"], names)
    secret, home = b"0123456789abcdef", ("10.0.0.1", 9)
    dispatcher = DispatcherSealer(
        {"k": UdpKey("k", Secret(secret))}.get, "d" * 16, Secret(b"x" * 32)
    )
    signer, packet = names["Signer"](secret, "k"), {"method": "ping", "packet_type": 0}

    with pytest.raises(Misaddressed) as caught:
        dispatcher.opened(signer.signed(packet), home, now=time.time())
    assert signer.opened(caught.value.hello) is None

    opened = dispatcher.opened(signer.signed(packet), home, now=time.time())
    assert json.loads(opened.body) == packet
    answer = dispatcher.sealed(b'{"packet_type":2}', opened.peer, now=time.time())
    assert signer.opened(answer) == {"packet_type": 2}
