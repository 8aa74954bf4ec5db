"""A run that is killed anywhere and run again leaves exactly one result, and nothing beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.mongo.server import new_database

TESTS = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")


def killed_at_every_line(kind: str, folder: Path, url: str = "") -> int:
    """Return how often the job was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "system.rerun.victim", kind, str(folder), url],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills: int = json.loads(done.stdout)["kills"]
    return kills


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of flushes to a disk take their time."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="shunter-rerun-", dir=place) as folder:
        yield Path(folder)


@pytest.mark.parametrize("kind", ["file", "directory", "table", "merged-table", "upsert"])
def test_a_local_target(kind: str, folder: Path) -> None:
    assert killed_at_every_line(kind, folder) > 15


@pytest.mark.parametrize("kind", ["collection", "upserted-collection"])
def test_a_collection(kind: str, folder: Path) -> None:
    assert killed_at_every_line(kind, folder, new_database()) > 15
