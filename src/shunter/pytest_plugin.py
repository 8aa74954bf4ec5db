"""Fixtures for users' tests, which pytest finds by itself where Shunter is installed.

`sandbox` is an open Sandbox of the project's app; `spark` a small Spark session. What they need is
imported when a test first asks for one: who uses neither pays for reading this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shunter import App
    from shunter.testing import Sandbox

INI_OPTION = "shunter_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the project's settings of pytest name the app."""
    parser.addini(INI_OPTION, "the app of the fixture 'sandbox': module:app or path/to/file.py:app")


@pytest.fixture(scope="session")
def shunter_app(pytestconfig: pytest.Config) -> App:
    """The app of `sandbox`, from pytest's setting `shunter_app`; a conftest.py may have its own."""
    from shunter.app import load_app
    from shunter.errors import AppError

    spec = str(pytestconfig.getini(INI_OPTION))
    if not spec:
        pytest.fail(
            "the fixture 'sandbox' does not know your app; set shunter_app = \"tasks.py\" for "
            "pytest, or define a fixture 'shunter_app' in conftest.py that returns it",
            pytrace=False,
        )
    place, _, attribute = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if place.endswith(".py"):
        place = str(pytestconfig.rootpath / place)
    try:
        return load_app(f"{place}:{attribute}" if attribute else place)
    except AppError as error:
        pytest.fail(f"{INI_OPTION}: {error}", pytrace=False)


@pytest.fixture
def sandbox(shunter_app: App) -> Iterator[Sandbox]:
    """The project's app with a dispatcher, a store and a clock of its own, new for each test."""
    from shunter.testing import Sandbox

    with Sandbox(shunter_app) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark session for all tests, configured as Shunter's runner does it.

    Tests that want it are skipped where PySpark or Java is missing.
    """
    pytest.importorskip(
        "pyspark", reason="PySpark is not installed; type: pip install 'shunter[spark]'"
    )
    from shunter.errors import FlowError
    from shunter.flow.runners.spark.session.driver_java import check_java
    from shunter.testing.spark import small_session

    try:
        check_java()
    except FlowError as missing:
        pytest.skip(str(missing))
    with small_session() as session:
        yield session
