"""One real MongoDB server for all tests that want one, started with the first of them."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from uuid import uuid4

from shunter.testing.mongod import LocalMongod


@cache
def shared_server() -> LocalMongod:
    cleanup = ExitStack()
    atexit.register(cleanup.close)
    return cleanup.enter_context(LocalMongod(in_memory=True))


def emptied_database() -> str:
    """The URL of a database that tests use one after the other: its indexes are there already."""
    every = [{"q": {}, "limit": 0}]
    for collection in ("jobs", "edges", "blobs", "workers", "dispatchers", "records", "journal"):
        shared_server().command("emptied", {"delete": collection, "deletes": every})
    return shared_server().url("emptied")


def new_database() -> str:
    """The URL of a database that nobody else uses."""
    return shared_server().url(f"t{uuid4().hex[:12]}")


def is_frozen(pid: int) -> bool:
    """True if each thread of a process is stopped; each stops by itself, a little later."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all((it / "stat").read_text().rpartition(")")[2].split()[0] == "T" for it in tasks)
