"""A run that is killed anywhere and run again leaves exactly one result, and nothing beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.mongo.server import new_database

TESTS = Path(__file__).parents[2]


def killed_at_every(nth: int, kind: str, folder: Path, url: str = "") -> int:
    """Return how often the job was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "system.rerun.victim", kind, str(folder), url, str(nth)],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills: int = json.loads(done.stdout)["kills"]
    return kills


def test_a_file_killed_at_every_line(tmp_path: Path) -> None:
    assert killed_at_every(1, "file", tmp_path) > 50


@pytest.mark.parametrize("kind", ["directory", "table", "merged-table", "upsert"])
def test_a_target_killed_at_every_third_line(kind: str, tmp_path: Path) -> None:
    assert killed_at_every(3, kind, tmp_path) > 50


@pytest.mark.parametrize(("kind", "nth"), [("collection", 7), ("upserted-collection", 9)])
def test_a_collection_killed_at_every_few_lines(kind: str, nth: int, tmp_path: Path) -> None:
    assert killed_at_every(nth, kind, tmp_path, new_database()) > 15
