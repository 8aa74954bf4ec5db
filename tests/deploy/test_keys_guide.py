"""The keys that the guide makes let in whom they should: a dispatcher, a worker and a client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.guide_commands import carry_out, commands
from shunter.client import Client
from shunter.errors import ShunterError
from system.yard import PATIENCE, Yard

APP = """
from shunter import App

app = App()


@app.job
def square(n: int) -> int:
    return n * n
"""


def test_the_keys_of_the_guide_let_in_whom_they_should(yard: Yard, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    (tmp_path / "shunter.toml").write_text(f'store.url = "{url}"\n')
    program = {"shunter key": f"{sys.executable} -m shunter key"}
    carry_out(commands("Keys and TLS"), program, folder=tmp_path)
    (tmp_path / "shunter.toml").unlink()
    key = {name: str(tmp_path / f"{name}.toml") for name in ("dispatcher", "worker", "shop")}

    station = yard.dispatcher("jobs", auth__key_file=key["dispatcher"])
    (tmp_path / "app.py").write_text(APP)
    settings = yard.config("w", {"auth.key_file": key["worker"]})
    words = ("worker", "--app", "app.py", "--config", str(settings), "--dispatcher")
    yard.process((*words, station.backend), "w")
    with Client(station.frontend, timeout=PATIENCE, key_file=key["shop"]) as client:
        assert client.submit("square", 7).result(timeout=PATIENCE) == 49
    with pytest.raises(ShunterError), Client(station.frontend, timeout=2) as stranger:
        stranger.submit("square", 8)
