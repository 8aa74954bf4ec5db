"""Where jobs are kept: a file for each measurement, or a database of a MongoDB server.

Both lie in the stage's folder, on the same disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.stage import Stage
from shunter.testing.mongod import LocalMongod

STORES = ("sqlite", "mongodb")

Urls = Callable[[str], str]
"""The URL of the store of that name, which is empty when it is first used."""


@contextmanager
def opened(kind: str, stage: Stage) -> Iterator[Urls]:
    """Give stores of one kind, for as long as this is open."""
    if kind == "sqlite":
        yield lambda name: f"sqlite:///{stage.folder / name}.db"
        return
    assert kind == "mongodb", f"{kind}: measured are {', '.join(STORES)}"
    folder = stage.folder / "mongod"
    folder.mkdir()
    with LocalMongod(folder) as server:
        yield server.url
