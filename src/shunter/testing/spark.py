"""A small Spark session for tests, started once and shared by all of them.

The fixture `spark` of `shunter.pytest_plugin` is it: `flow.run(on=spark)` runs there.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

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

WARM = {"spark.python.daemon.module": "shunter.testing.warm_daemon"}
"""For where Spark's Python has Shunter."""


def submit_arguments(settings: Mapping[str, str] = FOR_FEW_ROWS) -> str:
    """Return what the variable PYSPARK_SUBMIT_ARGS gives to every driver that is started with it.

    They come before what a program sets.
    """
    words = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    return " ".join([*words, "pyspark-shell"])


@contextmanager
def small_session(master: str = MASTER, *, memory: str = MEMORY) -> Iterator[SparkSession]:
    """Start a session with two cores, little memory and no UI, on loopback, and stop it again."""
    options = {"spark.driver.memory": memory, **FOR_FEW_ROWS}
    if os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
        options |= WARM
    session = spark_session(master, options=options)
    try:
        yield session
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            stop_session(session)
