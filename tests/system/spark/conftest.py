"""One small Spark session for all tests of this folder, as users have it in theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from long_runs import IS_LONG
from s3_server import ACCESS, s3_bucket, s3_server
from shunter.testing.quick_java import quick_java
from shunter.testing.spark import FOR_FEW_ROWS, WARM, small_session, submit_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["s3_bucket", "s3_server"]

# For this session's Java, and that of all drivers which tests start. With SHUNTER_LONG=1 these
# have the Python processes that Spark starts by itself.
os.environ.setdefault("JAVA_TOOL_OPTIONS", quick_java(Path(sys.prefix)))
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", submit_arguments(FOR_FEW_ROWS if IS_LONG else FOR_FEW_ROWS | WARM)
)


@pytest.fixture(scope="session")
def spark(s3_server: str) -> Iterator[SparkSession]:
    """The session of all tests in this process; its Python processes reach the store of objects."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**ACCESS, "AWS_ENDPOINT_URL": s3_server}.items():
                patch.setenv(name, value)
            session = stack.enter_context(small_session())
        yield session
