"""The example of a workflow with a flow in it, in a sandbox: three jobs, one after the other."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from shunter.testing import Sandbox

EXAMPLE = Path(__file__).parents[3] / "examples" / "nightly"


def report_of_a_night(folder: Path, **flow: Any) -> str:
    """Do a night's work in a copy of the example, and return its report."""
    folder = Path(shutil.copytree(EXAMPLE, folder))
    spec = importlib.util.spec_from_file_location("nightly_app", folder / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with Sandbox(module.app) as sandbox:
        with sandbox.workflow("nightly") as run:
            events = run.job("extract", 20)
            squares = run.job("shunter.flow", "squares.py", **flow, after=events)
            last = run.job("report", after=squares)
        return str(last.result())


def test_a_flow_run_is_a_node_like_any_other(tmp_path: Path) -> None:
    report = report_of_a_night(tmp_path / "nightly", on="local")

    assert report == "20 squares up to 361; flow completed"
