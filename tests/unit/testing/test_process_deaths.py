"""Where a sandbox lets processes die: in all of the user's code, and nowhere else."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shunter import App
from shunter.testing import Sandbox


def deaths(handler: Callable[..., Any], seeds: int) -> set[str]:
    """Return what is said of all deaths of runs of this handler."""
    app = App()
    app.job(name="tested")(handler)
    said: set[str] = set()
    for seed in range(seeds):
        with Sandbox(app, faults=seed) as sandbox:
            job = sandbox.submit("tested")
            sandbox.settle()
            said |= {past.message for past in job.record.history}
    return said


@pytest.mark.parametrize(("folder", "dies"), [("theirs", True), ("site-packages", False)])
def test_a_run_dies_in_other_files_of_the_users_and_not_in_what_is_installed(
    tmp_path: Path, folder: str, dies: bool
) -> None:
    file = tmp_path / folder / "module.py"
    file.parent.mkdir()
    code = """
    def help():
        first = 1
        return first
    """
    file.write_text(textwrap.dedent(code))
    module = ModuleType("module")
    exec(compile(file.read_text(), str(file), "exec"), vars(module))

    def handler() -> None:
        json.dumps(module.help(), indent=1)

    said = deaths(handler, seeds=30)

    assert any("of help" in each for each in said) is dies
    assert any("of handler" in each for each in said)
    assert not any("of dumps" in each for each in said)


def test_a_run_dies_late_in_a_long_handler_too() -> None:
    def handler() -> None:
        for _ in range(100):
            pass
        late()

    def late() -> None:
        for _ in range(1000):
            pass

    assert any("of late" in each for each in deaths(handler, seeds=40))
