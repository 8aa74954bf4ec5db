"""Which files a flow job may name, where its checkpoints are, and which jobs an app then does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shunter import App
from shunter.errors import FlowError
from shunter.flow.jobs import checkpoints_in, flow_in, flow_jobs
from shunter.flow.terms import FLOW_JOB, FOLDER_VARIABLE, MASTERS_VARIABLE
from shunter.testing import Sandbox

FLOW = "from shunter import Flow\nflow = Flow('f')\nflow.source([1, 2]).sink(print)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "flows"
    (folder / "inner").mkdir(parents=True)
    for name in ("flow.py", "inner/flow.py", "flow.txt"):
        (folder / name).write_text(FLOW)
    (tmp_path / "flow.py").write_text(FLOW)
    (tmp_path / "flows-too").mkdir()
    (tmp_path / "flows-too" / "flow.py").write_text(FLOW)
    return folder


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("flow.py", "flow.py"),
        ("flow.py:flow", "flow.py:flow"),
        ("inner/flow.py", "inner/flow.py"),
        ("./inner//flow.py", "inner/flow.py"),
    ],
)
def test_a_file_in_the_folder_is_found(folder: Path, spec: str, found: str) -> None:
    assert flow_in(folder, spec) == f"{folder}/{found}"


@pytest.mark.parametrize(
    "spec",
    ["../flow.py", "inner/../flow.py", "../flows/flow.py", "../flows-too/flow.py", "/etc/passwd",
     "a\0b.py", "inner/../../flow.py:flow"],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused(folder: Path, spec: str) -> None:
    with pytest.raises(FlowError, match="not in this worker's folder of flows"):
        flow_in(folder, spec)


def test_an_absolute_path_is_refused_also_where_it_leads_in(folder: Path) -> None:
    with pytest.raises(FlowError, match="not in this worker's folder"):
        flow_in(folder, str(folder / "flow.py"))


def test_links_count_as_what_they_lead_to(folder: Path) -> None:
    (folder / "out.py").symlink_to(folder.parent / "flow.py")
    (folder / "out").symlink_to(folder.parent)
    (folder / "in.py").symlink_to(folder / "flow.py")

    assert flow_in(folder, "in.py") == f"{folder}/flow.py"
    for spec in ("out.py", "out/flow.py"):
        with pytest.raises(FlowError, match="not in this worker's folder"):
            flow_in(folder, spec)


@pytest.mark.parametrize("spec", ["", ".", "inner", "missing.py", "flow.txt", "shunter.flow", ":f"])
def test_what_is_no_python_file_is_refused(folder: Path, spec: str) -> None:
    with pytest.raises(FlowError, match="has no Python file"):
        flow_in(folder, spec)


@pytest.mark.parametrize("name", ["nightly", "a/../../b", "a:b@c/d", "01hx"])
def test_checkpoints_are_in_a_folder_of_their_own(folder: Path, name: str) -> None:
    assert checkpoints_in(folder, name).resolve().parent == folder / ".checkpoints"


def test_names_of_checkpoints_do_not_collide(folder: Path) -> None:
    assert checkpoints_in(folder, "a/b") != checkpoints_in(folder, "a:b")


@pytest.mark.parametrize("name", ["", "..", "/etc", "a b", "x" * 129])
def test_what_is_no_name_names_no_checkpoints(folder: Path, name: str) -> None:
    with pytest.raises(FlowError, match="can't name checkpoints"):
        checkpoints_in(folder, name)


def test_an_app_of_ones_own_may_run_flows_beside_its_jobs(folder: Path) -> None:
    app = App()
    flow_jobs(app, folder)
    app.job(name="other")(lambda: 1)

    with Sandbox(app) as sandbox:
        assert sandbox.submit("other").result() == 1
        ended = sandbox.submit(FLOW_JOB, "flow.py", on="local").result()

    assert ended["flow"] == "f"
    assert [stage["taken"] for stage in ended["stages"]] == [0, 2]


def test_a_worker_without_a_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    app = App()
    flow_jobs(app)

    with Sandbox(app) as sandbox:
        job = sandbox.submit(FLOW_JOB, "flow.py", on="local")
        sandbox.settle()
        assert job.record.error is not None
        assert "start it with --flows FOLDER" in job.record.error.message


@pytest.mark.parametrize(
    ("master", "listed", "is_allowed"),
    [
        ("spark://203.0.113.7:7077", [], False),
        ("sc://203.0.113.7", ["spark://a:7077"], False),
        ("local-cluster[2,1,1024]", [], False),
        ("spark://a:7077", ["spark://a:7077"], True),
        ("local[2]", [], True),
    ],
)
def test_a_job_may_name_a_master_that_the_worker_s_settings_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch, master: str, listed: list[str], is_allowed: bool
) -> None:
    monkeypatch.setenv(MASTERS_VARIABLE, json.dumps(listed))
    app = App()
    flow_jobs(app, folder)

    with Sandbox(app) as sandbox:
        job = sandbox.submit(FLOW_JOB, "flow.py", on="local", master=master)
        sandbox.settle()
        error = job.record.error

    assert (error is None) is is_allowed
    if error is not None:
        assert "add it to worker.spark_masters" in error.message
