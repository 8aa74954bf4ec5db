"""The fixtures that users' tests have: a sandbox of their app, and Spark where it is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shunter.flow.runners.spark.session.driver_java
import shunter.testing  # noqa: F401  pytester forgets what a run imports first

PROJECT = Path(__file__).parents[2]
PLUGIN = "shunter.pytest_plugin"

pytest_plugins = ["pytester"]

APP = """
from shunter import App

app = App()

@app.job
def add(a: int, b: int) -> int:
    return a + b
"""

TESTS = """
from jobs.tasks import add

def test_one(sandbox):
    assert sandbox.submit(add, 1, 2).result() == 3

def test_two(sandbox):
    assert sandbox.store is not None
    assert sandbox.submit("add", 1, 2).result() == 3
    assert len(sandbox.client().jobs()) == 1
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of somebody else's, with an app."""
    pytester.makepyfile(**{"jobs/__init__": "", "jobs/tasks": APP, "test_it": TESTS})
    pytester.syspathinsert()
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", PLUGIN, "-rs")


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep those away that take seconds to import."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_the_sandbox_is_of_the_app_that_the_settings_name(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nshunter_app = jobs.tasks:app")

    run(project).assert_outcomes(passed=2)


def test_a_path_counts_from_where_the_settings_are(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nshunter_app = jobs/tasks.py")
    project.makepyfile(test_it="def test_one(sandbox): sandbox.submit('add', 1, 2)")

    run(project).assert_outcomes(passed=1)


def test_a_conftest_may_have_the_app(project: pytest.Pytester) -> None:
    project.makeconftest(
        "import pytest\n"
        "from jobs.tasks import app\n"
        "@pytest.fixture\n"
        "def shunter_app(): return app\n"
    )

    run(project).assert_outcomes(passed=2)


def test_without_an_app_the_test_says_what_to_do(project: pytest.Pytester) -> None:
    result = run(project)

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*set shunter_app = *or define a fixture 'shunter_app'*"])


def test_a_wrong_app_is_named(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nshunter_app = jobs.nothing")

    result = run(project)

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*shunter_app: there is no module 'jobs.nothing'*"])


def test_without_java_tests_on_spark_are_skipped_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    pytester.makepyfile("def test_one(spark): raise AssertionError")

    result = run(pytester)

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*Spark needs Java 17, and there is none in JAVA_HOME=/nowhere*"])


def test_without_pyspark_tests_on_spark_are_skipped_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    pytester.makepyfile("def test_one(spark): raise AssertionError")

    result = run(pytester)

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*PySpark is not installed; type: pip install*"])


def test_who_does_not_use_it_does_not_pay_for_it() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import shunter.pytest_plugin; "
        "sys.exit(str(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr.strip() == "['shunter', 'shunter.pytest_plugin']"


def test_pytest_finds_it_by_itself_under_its_own_name() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}  # so -p loads it no second time
