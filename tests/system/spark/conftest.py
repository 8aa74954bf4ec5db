"""One small Spark session for all tests of this folder, as users have it in theirs."""

from __future__ import annotations

import os

from shunter.testing.spark import spark

__all__ = ["spark"]

# A Java that starts in half the time, and would be slower only in the long run: this one's too,
# and that of every driver which a test starts.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
