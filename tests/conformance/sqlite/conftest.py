"""SQLite stores on a file, and other processes that use the same one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.store.sqlite import SQLiteStore

TESTS = Path(__file__).parents[2]


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


@pytest.fixture
def store(run, path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path)
    run(store.open())
    yield store
    run(store.close())


@pytest.fixture
def process(path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Run a script in a process of its own; its first argument is the path of the file."""
    started = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "-c", script, path, *arguments]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
