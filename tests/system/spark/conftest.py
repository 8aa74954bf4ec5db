"""One small Spark session for all tests of this folder, as users have it in theirs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shunter.testing.quick_java import quick_java
from shunter.testing.spark import spark, submit_arguments

__all__ = ["spark"]

# For this session's Java, and that of all drivers which tests start.
os.environ.setdefault("JAVA_TOOL_OPTIONS", quick_java(Path(sys.prefix)))
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", submit_arguments())
