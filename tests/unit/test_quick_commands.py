"""A command imports what it needs and no more, for that is most of the time it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("aiohttp", "gridfs", "matplotlib", "pyarrow", "pymongo", "pyspark")


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("shunter.cli.main", (*HEAVY, "starlette", "uvicorn", "zmq")),
        ("shunter.cli.job_listings", (*HEAVY, "starlette", "uvicorn")),
        ("shunter.cli.worker_process", (*HEAVY, "starlette", "uvicorn")),
        ("shunter.cli.dispatcher_process", HEAVY),
    ],
)
def test_a_command_does_without(module: str, unneeded: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sorted(sys.modules.keys() & {set(unneeded)!r}))"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert told.stdout.split() == []
