"""A backup that was taken while jobs came in has every job that was accepted before it."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.guide_commands import carry_out, commands
from shunter.client import Client
from shunter.model.job import Status
from shunter.testing.mongod import LocalMongod
from system.yard import PATIENCE, Station, Yard, until


class Stream:
    """A client that submits jobs one after the other, and remembers those that were accepted."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stopping = threading.Event()
        self.accepted: list[str] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.wait(0.005):
            self.accepted.append(self._client.submit("work", len(self.accepted), 0.0).id)

    def grown(self, by: int) -> int:
        """Wait until so many more were accepted; return how many there are then."""
        goal = len(self.accepted) + by
        until(lambda: len(self.accepted) >= goal or not self.thread.is_alive(), what="submissions")
        assert len(self.accepted) >= goal
        return len(self.accepted)

    def stop(self) -> None:
        self._stopping.set()
        self.thread.join(PATIENCE)


@contextmanager
def stream_to(yard: Yard, station: Station) -> Iterator[Stream]:
    stream = Stream(yard.client(station))
    stream.thread.start()
    try:
        yield stream
    finally:
        stream.stop()


def expect_all_to_end(yard: Yard, station: Station, ids: list[str]) -> None:
    """All of these jobs are known to this dispatcher, and end."""
    client = yard.client(station)

    def are_done() -> bool:
        found = client.jobs(job_ids=ids)
        return len(found) == len(ids) and all(it.status is Status.COMPLETED for it in found)

    assert 50 <= len(ids) < 250
    until(are_done, what="all jobs that were accepted before the backup")


def test_sqlite_is_backed_up_while_jobs_run_and_restored(yard: Yard, tmp_path: Path) -> None:
    station = yard.dispatcher("jobs")
    yard.worker(station)
    store, backups = tmp_path / "jobs.db", tmp_path / "backups"
    backups.mkdir()
    names = {"/var/lib/shunter": tmp_path, "/var/backups/shunter": backups}
    with stream_to(yard, station) as stream:
        before = stream.grown(by=50)
        carry_out(commands("Back up SQLite"), names)
        stream.grown(by=50)
    [copy] = backups.iterdir()
    assert copy.stat().st_mode & 0o077 == 0  # payloads are nobody else's
    station.process.kill()
    with store.open("r+b") as file:  # the disk has lost the beginning
        file.write(b"\0" * 4096)

    names |= {
        "jobs-2026-11-17.db": copy.name,
        "/opt/shunter/bin/shunter": f"{sys.executable} -m shunter",
    }
    carry_out(commands("Restore SQLite"), names)
    station.start()

    expect_all_to_end(yard, station, stream.accepted[:before])


MONGOSH = """
import sys
from pymongo import MongoClient
_, url, option, text = sys.argv
commands = {"db.fsyncLock()": {"fsync": 1, "lock": True}, "db.fsyncUnlock()": {"fsyncUnlock": 1}}
assert option == "--eval"
with MongoClient(url) as client:
    print(client.admin.command(commands[text]))
"""
"""What `mongosh` does with these two commands; the shell itself is not among our packages."""


def test_mongodb_is_backed_up_while_jobs_run_and_restored(yard: Yard, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with LocalMongod(in_memory=True) as server:
        station = yard.dispatcher(store__url=server.url("backed_up"))
        yard.worker(station)
        with stream_to(yard, station) as stream:
            before = stream.grown(by=50)
            names = {
                "db3:27017": f"127.0.0.1:{server.port}",
                "/var/lib/mongodb": server.directory,
                "/var/backups/mongodb-2026-11-17": copy,
            }
            carry_out(commands("Back up MongoDB"), names, stand_ins={"mongosh": MONGOSH})
            stream.grown(by=50)  # those that came meanwhile waited, and are accepted
        station.process.kill()
        port = server.port
    with_copy = LocalMongod(copy)
    with_copy.port = port  # the members' names are in the data: the same host, the same port
    with with_copy:
        station.start()
        expect_all_to_end(yard, station, stream.accepted[:before])


@pytest.mark.parametrize("kind", ["sqlite", "mongodb"])
def test_a_dispatcher_refuses_the_store_of_a_newer_one(
    kind: str, yard: Yard, tmp_path: Path
) -> None:
    """What a roll-back meets: it ends with a reason, and changes nothing."""
    if kind == "sqlite":
        path = tmp_path / "jobs.db"
        with sqlite3.connect(path) as file:
            file.execute("PRAGMA application_id = 0x53484E54")
            file.execute("PRAGMA user_version = 99")
        refused = yard.shunter("dispatcher", "--store", f"sqlite:///{path}")
    else:
        with LocalMongod(in_memory=True) as server:
            newer = {"insert": "schema", "documents": [{"_id": "shunter", "version": 99}]}
            server.command("newer", newer)
            refused = yard.shunter("dispatcher", "--store", server.url("newer"))

    assert refused.returncode == 1
    assert "its schema has version 99" in refused.stderr
    assert "install the newer Shunter that wrote it" in refused.stderr
