"""What the registry asks about stores in SQLite files: names, and whether one is there."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shunter.durable_files import flush_to_disk
from shunter.errors import StoreError
from shunter.store.finding import Finding, State
from shunter.store.sqlite import doctor
from shunter.store.sqlite.connection import existing
from shunter.store.sqlite.store import SQLiteStore

SLOW_FSYNC_SECONDS = 0.05


def path_of(url: str) -> str:
    """Return the path in a URL; raise a ValueError if there is none."""
    rest = url.partition("://")[2]
    if not rest.startswith("/") or not rest[1:].strip("/") or rest == "/:memory:":
        raise ValueError("three slashes before a relative path, four before an absolute one")
    return rest[1:]


def made(url: str) -> SQLiteStore:
    return SQLiteStore(path_of(url))


async def check_exists(url: str) -> None:
    path = made(url).path
    if not await asyncio.to_thread(os.path.isfile, path):
        raise StoreError(
            f"store {path}: there is no such file; name the one that the dispatcher has "
            "in store.url (see: shunter config)"
        )


def mark_of(url: str) -> str:
    return f"sqlite:{socket.gethostname()}:{os.path.abspath(path_of(url))}"


def absolute(url: str) -> str:
    return f"sqlite:///{os.path.abspath(path_of(url))}"


def glance(url: str) -> Finding:
    """Open the file if it is there, and time how long its disk takes to keep a write."""
    path = Path(path_of(url))
    try:
        if path.exists():
            with closing(sqlite3.connect(existing(str(path.resolve())), uri=True)) as file:
                file.execute("PRAGMA schema_version").fetchone()
        took = _fsync_seconds(path.resolve().parent)
    except (OSError, sqlite3.Error) as error:
        remedy = f"make {path.resolve().parent} writable, or set store.url to another file"
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        ):
            remedy = "type: shunter doctor --store"
        return Finding("store", State.MISSING, f"{path}: {error}", remedy)
    there = "can be opened" if path.exists() else "can be made"
    fact = f"{path} {there}; its disk keeps a write in {took * 1000:.1f} ms"
    if took > SLOW_FSYNC_SECONDS:
        return Finding("store", State.WARN, fact, "each commit waits so long: use a faster disk")
    return Finding("store", State.OK, fact)


def examine(url: str) -> Iterator[Finding]:
    return doctor.examine(os.path.abspath(path_of(url)))


def repair(url: str) -> Iterator[Finding]:
    return doctor.repair(os.path.abspath(path_of(url)))


def _fsync_seconds(folder: Path) -> float:
    """Return the median of a few small writes that reach the disk."""
    spans = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".shunter-doctor-") as probe:
        for _ in range(5):
            begun = time.perf_counter()
            probe.write(b"." * 4096)
            flush_to_disk(probe.file)
            spans.append(time.perf_counter() - begun)
    return sorted(spans)[len(spans) // 2]
