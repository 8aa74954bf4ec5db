"""What `import shunter` offers."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import shunter
import shunter.testing
from shunter.client.job_journals import JobJournals
from shunter.client.job_logs import JobLogs
from shunter.client.limits import AsyncLimits, Limits
from shunter.client.runs import AsyncWorkflowRuns, WorkflowRuns
from shunter.client.schedules import AsyncSchedules, Schedules
from shunter.client.sync_udp_client import AddedTask
from shunter.client.udp_client import AsyncTask
from shunter.client.workflow import AsyncWorkflow, Workflow
from shunter.model.explanation import Explanation
from shunter.model.limits_record import TypeLimits
from shunter.model.parents import Parent, Parents
from shunter.model.run_view import RunView
from shunter.model.worker import Worker
from shunter.store.port import Store


@pytest.mark.parametrize("name", shunter.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(shunter, name)

    assert getattr(found, "__name__", repr(found)) == name


def test_importing_the_app_does_not_load_the_client() -> None:
    code = "import sys; from shunter import App, Context; sys.exit('zmq' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_two_classes_share_a_name() -> None:
    source = Path(shunter.__file__).parent
    names = Counter(
        node.name
        for path in source.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} == set()


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(shunter) == sorted([*shunter.__all__, "__version__"])


HANDED_OUT = (
    *(AsyncLimits, AsyncSchedules, AsyncTask, AsyncWorkflow, AsyncWorkflowRuns),
    *(AddedTask, Limits, Schedules, Workflow, WorkflowRuns),
    *(Explanation, JobLogs, JobJournals, Parent, Parents, RunView, TypeLimits, Worker),
)
"""Classes that nobody imports: public methods and attributes give objects of them."""


def public_methods() -> list[tuple[str, object]]:
    found = {}
    public = [getattr(home, name) for home in (shunter, shunter.testing) for name in home.__all__]
    for owner in (*public, *HANDED_OUT):
        for attribute in dir(owner) if isinstance(owner, type) else ():
            method = inspect.getattr_static(owner, attribute)
            is_method = callable(method) or isinstance(method, property | classmethod)
            is_ours = getattr(getattr(owner, attribute), "__module__", "shunter")
            if is_method and not attribute.startswith("_") and "shunter" in str(is_ours):
                found[f"{owner.__name__}.{attribute}"] = method
    return sorted(found.items(), key=lambda item: item[0])


def test_every_public_method_says_what_it_does() -> None:
    told_elsewhere = {f"MemoryStore.{name}" for name in dir(Store)}  # the contract of stores
    silent = {name for name, method in public_methods() if not inspect.getdoc(method)}

    assert silent - told_elsewhere == set()
    assert len(public_methods()) > 50
