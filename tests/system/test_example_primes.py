"""`make run` shows what it says: thousands of jobs, and the same jobs over three protocols.

Its Spark is one that starts quickly; with SHUNTER_LONG=1 it is that of `make run` itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from long_runs import IS_LONG
from shunter.testing.quick_java import quick_java
from shunter.testing.spark import FOR_FEW_ROWS, WARM, submit_arguments

PROGRAM = Path(__file__).parents[2] / "examples" / "primes" / "run.py"
QUICK_SPARK = {
    "JAVA_TOOL_OPTIONS": quick_java(Path(sys.prefix)),
    "PYSPARK_SUBMIT_ARGS": submit_arguments(FOR_FEW_ROWS | WARM),
}


@pytest.mark.timeout(400)
def test_the_main_job_ends_well_and_shows_its_tables() -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
        env=dict(os.environ) if IS_LONG else {**os.environ, **QUICK_SPARK},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "78,498 primes below a million" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "9,592 primes below 100,000" in line]
    assert [row.split()[1] for row in rows] == ["ZeroMQ", "UDP", "HTTP"]
    assert "11 more changes in 1,800 readings" in done.stdout
    assert done.stderr == ""
