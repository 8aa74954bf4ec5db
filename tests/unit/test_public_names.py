"""What `import shunter` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import shunter


@pytest.mark.parametrize("name", shunter.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(shunter, name).__name__ == name


def test_importing_the_app_does_not_load_the_client() -> None:
    code = "import sys; from shunter import App, Context; sys.exit('zmq' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
