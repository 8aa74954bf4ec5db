"""The example in examples/reports, killed for real, leaves exactly one result."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from pymongo.database import Database

from shunter.model.job import Status
from system.yard import PATIENCE, QUICK_LEASE, Process, Station, Yard, is_watchdog, until

EXAMPLE = Path(__file__).parents[3] / "examples" / "reports"
WATCHED_APP = Path(__file__).with_name("watched_app.py")
ACCOUNTS = 20_000


def lines_of(folder: Path) -> list[str]:
    return (folder / "report.csv").read_text().splitlines()[1:]


def rows_of(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "report.db")) as connection:
        rows = connection.execute("SELECT account, month, cents FROM report ORDER BY account")
        return [",".join(map(str, row)) for row in rows]


def tables_of(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "report.db")) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return [name for (name,) in connection.execute(query)]


def test_the_example_kills_its_worker_and_ends_with_exactly_one_result(
    tmp_path: Path, url: str, database: Database[Any]
) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "run.py"), "--folder", str(tmp_path), "--mongodb", url],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed half-way" in done.stdout
    assert "exactly one result, nothing left over" in done.stdout
    lines = lines_of(tmp_path)
    assert len(lines) == len(set(lines)) == ACCOUNTS
    assert lines == sorted(lines) == rows_of(tmp_path)
    found = database["report"].find({}, {"_id": 0}, sort=["account"])
    assert [",".join(map(str, document.values())) for document in found] == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.csv", "report.db"]
    assert tables_of(tmp_path) == ["report"]
    assert database.list_collection_names() == ["report"]


def worker(yard: Yard, station: Station, name: str) -> Process:
    settings = {"worker.dispatchers": [station.backend], "worker.max_jobs": 1, **QUICK_LEASE}
    words = ("worker", "--app", str(WATCHED_APP), "--config", str(yard.config(name, settings)))
    return yard.process(words, name)


def test_a_run_that_was_stopped_and_wakes_up_after_its_successor_does_no_harm(
    yard: Yard, url: str, database: Database[Any]
) -> None:
    folder = yard.folder / "results"
    folder.mkdir()
    lease = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
    station = yard.dispatcher(**lease)
    first = worker(yard, station, "first")
    client = yard.client(station)
    job = client.with_options(run="november").submit("watched", str(folder), 4000, 3.0, url)
    until(lambda: client.job(job.id).progress, what="the first run has begun")
    children = psutil.Process(first.pid).children()
    for process in (psutil.Process(first.pid), *children):
        process.suspend()

    worker(yard, station, "second")
    total = job.result(PATIENCE)
    record = client.job(job.id)
    assert (record.status, record.attempt, record.losses) == (Status.COMPLETED, 2, 1)
    before = (lines_of(folder), rows_of(folder), list(database["report"].find()))
    inode = (folder / "report.csv").stat().st_ino

    # Only the child goes on, so that nobody stops it, not even the watchdog: it learns of its
    # successor by itself.
    for process in children:
        if not is_watchdog(process.pid):
            process.resume()
    until(lambda: len(yard.witness.read_text().split("\n")) == 3, what="the old run's end")

    assert yard.witness.read_text().split() == ["2", "published", "1", "Superseded"]
    assert (lines_of(folder), rows_of(folder), list(database["report"].find())) == before
    assert (folder / "report.csv").stat().st_ino == inode
    assert sum(int(line.split(",")[2]) for line in lines_of(folder)) == total
    assert sorted(path.name for path in folder.iterdir()) == ["report.csv", "report.db"]
    assert tables_of(folder) == ["report"]
    assert database.list_collection_names() == ["report"]
