"""Kills a job at every line of `shunter.rerun` that it comes through, and runs it again.

A program of its own, since it forks: `python -m system.rerun.victim KIND FOLDER URL`. The
process that forks has no thread and no connection; each run is a child that has its own. After
each kill the target must hold the old contents or the new ones, and after the next attempt the
new ones and nothing beside them. It prints how many kills there were, as JSON.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from long_runs import IS_LONG
from shunter.rerun import (
    Owner,
    staged_collection,
    staged_directory,
    staged_file,
    staged_table,
    upsert_documents,
    upsert_rows,
)

ROWS = 20
PASSES = 2 if IS_LONG else 1
"""How often a run is killed at one line."""
STRIDE = 1 if IS_LONG else 2
"""Every line, or every other one; with which it begins is left to chance."""
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
OURS = (str(Path(inspect.getfile(staged_file)).parent), inspect.getfile(shutil))
"""Code that a run may die in: our own, and what removes directories for us."""


class Found(NamedTuple):
    """What is there: the version of each row, none where there is no target; what was left."""

    contents: list[int]
    leftovers: list[str]


class Target(ABC):
    """One kind of place that results are published to."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    @abstractmethod
    def run(self, owner: Owner, version: int) -> None:
        """Publish a version."""

    @abstractmethod
    def found(self) -> Found:
        """Look at what is there."""


class FileTarget(Target):
    def run(self, owner: Owner, version: int) -> None:
        with staged_file(self.folder / "result.txt", run=owner) as file:
            file.writelines(f"{version}\n" for _ in range(ROWS))

    def found(self) -> Found:
        path = self.folder / "result.txt"
        lines = path.read_text().split() if path.exists() else []
        left = [name for name in os.listdir(self.folder) if name != "result.txt"]
        return Found(list(map(int, lines)), left)


class DirectoryTarget(Target):
    def run(self, owner: Owner, version: int) -> None:
        with staged_directory(self.folder / "result", run=owner) as staging:
            (staging / "deeper").mkdir()
            for number in range(ROWS):
                (staging / "deeper" / str(number)).write_text(str(version))

    def found(self) -> Found:
        versions = [int(path.read_text()) for path in (self.folder / "result").glob("deeper/*")]
        return Found(versions, [name for name in os.listdir(self.folder) if name != "result"])


class TableTarget(Target):
    how = "replace"

    def run(self, owner: Owner, version: int) -> None:
        rows = [(number, version) for number in range(ROWS)]
        schema = "id INTEGER PRIMARY KEY, version INTEGER NOT NULL"
        path = self.folder / "result.db"
        with staged_table(path, "result", publish=self.how, schema=schema, run=owner) as staged:  # type: ignore[arg-type]
            staged.insert(rows[:5])
            staged.insert(rows[5:])

    def found(self) -> Found:
        versions = [v for (v,) in self._query("SELECT version FROM result")]
        return Found(versions, [n for (n,) in self._query(TABLES) if n != "result"])

    def _query(self, query: str) -> list[Any]:
        connection = sqlite3.connect(self.folder / "result.db")
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()


class MergedTableTarget(TableTarget):
    how = "merge"


class CollectionTarget(Target):
    def run(self, owner: Owner, version: int) -> None:
        from pymongo import MongoClient

        with (
            MongoClient(self.url) as client,
            staged_collection(client.get_database()["result"], run=owner) as staging,
        ):
            staging.insert_many([{"_id": n, "version": version} for n in range(ROWS)])

    def found(self) -> Found:
        """Ask in a child, so that this process has no client when it forks."""
        from pymongo import MongoClient

        def asked() -> Found:
            with MongoClient(self.url) as client:
                database = client.get_database()
                versions = [each["version"] for each in database["result"].find({}, {"_id": 0})]
                names = database.list_collection_names()
                return Found(versions, [name for name in names if name != "result"])

        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, json.dumps(asked()).encode())
            os._exit(0)
        os.close(writer)
        os.wait()
        with os.fdopen(reader) as answer:
            return Found(*json.load(answer))


class UpsertTarget(TableTarget):
    """Not staged: a run that dies leaves some rows new and some old, the next corrects that."""

    def run(self, owner: Owner, version: int) -> None:
        path = self.folder / "result.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS result (id PRIMARY KEY, version)")
        for half in (range(ROWS // 2), range(ROWS // 2, ROWS)):
            upsert_rows(connection, "result", ({"id": n, "version": version} for n in half))
        connection.close()


class UpsertedCollectionTarget(CollectionTarget):
    def run(self, owner: Owner, version: int) -> None:
        from pymongo import MongoClient

        with MongoClient(self.url) as client:
            for half in (range(ROWS // 2), range(ROWS // 2, ROWS)):
                upsert_documents(
                    client.get_database()["result"], [{"_id": n, "version": version} for n in half]
                )


KINDS: dict[str, type[Target]] = {
    "file": FileTarget,
    "directory": DirectoryTarget,
    "table": TableTarget,
    "merged-table": MergedTableTarget,
    "collection": CollectionTarget,
    "upsert": UpsertTarget,
    "upserted-collection": UpsertedCollectionTarget,
}


def killer(lines: int) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that ends this process at the n-th line of our code.

    Of a line that is passed again and again, the first time counts, or the first two.
    """
    left, passed = lines, Counter[tuple[str, int]]()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        place = (frame.f_code.co_filename, frame.f_lineno)
        if not place[0].startswith(OURS):
            return None
        if event == "line":
            passed[place] += 1
            left -= passed[place] <= PASSES
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def was_killed(target: Target, owner: Owner, version: int, lines: int | None) -> bool:
    """Run the job in a child, which dies at that line; tell whether it did."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if lines is not None:
                sys.settrace(killer(lines))
            target.run(owner, version)
            sys.settrace(None)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the job failed"
    return os.WIFSIGNALED(status)


def main(kind: str, folder: Path, url: str) -> int:
    target = KINDS[kind](folder, url)
    is_staged = not kind.startswith("upsert")
    before: list[int] = []
    version, lines = 0, random.randint(1, STRIDE)
    gc.freeze()  # a fork copies what the collector touches
    gc.disable()
    while True:
        version += 1
        owner = Owner("the run", f"job {version}", 1)
        if not was_killed(target, owner, version, lines):
            break
        if is_staged:
            assert (found := target.found()).contents in (before, [version] * ROWS), (lines, found)
        assert not was_killed(target, owner._replace(attempt=2), version, None)
        assert (found := target.found()) == Found([version] * ROWS, []), (lines, found)
        before = [version] * ROWS
        lines += STRIDE
    print(json.dumps({"kills": version - 1, "lines": lines}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
