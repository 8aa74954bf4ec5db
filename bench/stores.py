"""Where jobs are kept: a file for each measurement, or a database of a MongoDB server.

Both lie in the stage's folder, on the same disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from bench.stage import Stage
from shunter.testing.mongod import LocalMongod

STORES = ("sqlite", "mongodb")


class Urls:
    """Gives the URL of the store of a name, which is empty when it is first used."""

    def __init__(self, url: Callable[[str], str], server: psutil.Process | None = None) -> None:
        self._url, self._server = url, server

    def __call__(self, name: str) -> str:
        return self._url(name)

    def cpu_seconds(self) -> float:
        """How much processor time the stores' server has used so far, if there is one."""
        if self._server is None:
            return 0.0
        times = self._server.cpu_times()
        return times.user + times.system


@contextmanager
def opened(kind: str, stage: Stage) -> Iterator[Urls]:
    """Give stores of one kind, for as long as this is open."""
    if kind == "sqlite":
        yield Urls(lambda name: f"sqlite:///{stage.folder / name}.db")
        return
    assert kind == "mongodb", f"{kind}: measured are {', '.join(STORES)}"
    folder = stage.folder / "mongod"
    folder.mkdir()
    with LocalMongod(folder) as server:
        yield Urls(server.url, psutil.Process(server.pid))
