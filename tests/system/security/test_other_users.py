"""Another user of the same host: what he can't reach, tried as that user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shunter.flow.runners.engines.local_engines import LocalEngines
from system.yard import Yard

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

NOBODY = 65534
KNOCK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
"""
READ = "import sys; open(sys.argv[1], 'rb').read(1)"


def as_nobody(program: str, path: str) -> str:
    """Run a program as a user without rights; return what it has said."""
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", program, path],
        user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60,
        cwd="/", check=False,
    )  # fmt: skip
    return done.stderr


def test_an_engine_hears_its_own_user_alone(tmp_path: Path) -> None:
    with LocalEngines(1, tmp_path) as engines:
        [endpoint] = engines.endpoints
        path = endpoint.removeprefix("ipc://")

        assert path != endpoint
        subprocess.run([sys.executable, "-c", KNOCK, path], check=True)
        assert "PermissionError" in as_nobody(KNOCK, path)
    assert not Path(path).exists()


def test_the_store_of_a_dispatcher_is_not_read(yard: Yard) -> None:
    station = yard.dispatcher()
    for folder in (yard.folder, *yard.folder.parents):
        if folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o005)
    path = str(station.settings["store.url"]).removeprefix("sqlite:///")

    assert "PermissionError" in as_nobody(READ, path)
