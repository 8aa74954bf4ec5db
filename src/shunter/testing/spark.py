"""A small Spark session for tests, started once and shared by all of them.

In a `conftest.py`:

    from shunter.testing.spark import spark

    __all__ = ["spark"]

Then a test that has an argument `spark` gets the session, and `flow.run(on=spark)` runs there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from shunter.flow.runners.spark.session.spark_session import spark_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
MEMORY = "1g"
FOR_FEW_ROWS = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Planning a query anew as it runs, and compiling it, take longer than a test's few rows."""


@contextmanager
def small_session(master: str = MASTER, *, memory: str = MEMORY) -> Iterator[SparkSession]:
    """Start a session with two cores, little memory and no UI, on loopback, and stop it again."""
    session = spark_session(master, options={"spark.driver.memory": memory, **FOR_FEW_ROWS})
    try:
        yield session
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            stop_session(session)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests in this process."""
    with small_session() as session:
        yield session
