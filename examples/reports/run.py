"""Kill a worker in the middle of a job, start another, and count the results: exactly one.

    python examples/reports/run.py [--mongodb mongodb://127.0.0.1:27017/reports] [--folder HERE]

Everything is real and on loopback: a dispatcher, workers, SIGKILL. Without MongoDB the report
goes into a file and an SQLite table only. Without a folder they are in a temporary one.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from shunter import Client, Job, Status, SubmittedJob, Unreachable

APP = Path(__file__).with_name("app.py")
MONTH, ACCOUNTS, PAUSE = "2026-11", 20_000, 0.06
PATIENCE = 60.0

QUICK_LEASE = {
    "SHUNTER__LEASE__HEARTBEAT": "0.2",
    "SHUNTER__LEASE__WORKER_GIVES_UP": "1.0",
    "SHUNTER__LEASE__KILL_WITHIN": "0.5",
    "SHUNTER__LEASE__DISPATCHER_TAKES_OVER": "2.0",
}
"""A job is taken over 2 s after its worker was last heard of, not 10, so that you need not wait."""


class Found(NamedTuple):
    """What is in one of the places that the report goes to."""

    place: str
    rows: int
    accounts: int
    staged: list[str]


class Scene:
    """The processes of this example."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self.log = folder / "processes.log"
        frontend, backend, http = free_ports(3)
        self.frontend, self._backend = f"tcp://127.0.0.1:{frontend}", f"tcp://127.0.0.1:{backend}"
        self._environ = {
            **os.environ,
            **QUICK_LEASE,
            "SHUNTER__STORE__URL": f"sqlite:///{folder}/shunter.db",
            "SHUNTER__ZMQ__FRONTEND": self.frontend,
            "SHUNTER__ZMQ__BACKEND": self._backend,
            "SHUNTER__HTTP__PORT": str(http),
            "SHUNTER__UDP__CLIENT_ADDRESS__PORT": "0",
        }
        self._start("dispatcher")

    def worker(self) -> subprocess.Popen[bytes]:
        words = ("worker", "--app", str(APP), "--max-jobs", "1", "--dispatcher", self._backend)
        return self._start(*words)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "shunter", *words],
                env=self._environ,
                stderr=log,
                start_new_session=True,
            )
        self._stack.callback(end, process)
        return process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mongodb", help="the URL of a database for the report")
    parser.add_argument("--folder", type=Path, help="where to leave the report; must exist")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        parser.error(f"there is no folder {options.folder}; make it first")
    console = Console()
    if options.mongodb and (reason := unreachable(options.mongodb)):
        parser.error(f"no MongoDB answers: {reason}; start one there, or leave --mongodb away")
    with ExitStack() as stack:
        processes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        folder = options.folder or processes
        scene = Scene(stack, processes)
        try:
            client = stack.enter_context(Client(scene.frontend, timeout=30))
            return play(console, scene, client, folder.resolve(), options.mongodb)
        except (Unreachable, TimeoutError) as error:
            console.print(f"[red]{error}[/red]\n{scene.log.read_text()}")
            return 1


def play(console: Console, scene: Scene, client: Client, folder: Path, mongodb: str | None) -> int:
    worker = scene.worker()
    with console.status("starting a dispatcher and a worker"):
        until(client.workers, "a worker")
    arguments = {"accounts": ACCOUNTS, "pause": PAUSE, "mongodb": mongodb}
    job = client.with_options(run=f"report-of-{MONTH}").submit(
        "report", str(folder), MONTH, **arguments
    )
    console.print(f"job {job.id} writes {ACCOUNTS:,} accounts to each of the places below")
    with bar(console, "attempt 1") as show:
        until(lambda: show(client.job(job.id)) >= 0.5, "half of the report")
        if job.is_done:  # which is too early
            return verdict(console, client, job, inspect(folder, mongodb))
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    console.print("the worker was killed half-way, with SIGKILL")
    print_table(console, "after the kill", inspect(folder, mongodb))

    scene.worker()
    with console.status("another worker has started; the dispatcher waits for the lease to end"):
        until(lambda: client.job(job.id).attempt == 2, "a second attempt")
    with bar(console, "attempt 2") as show:
        until(lambda: show(client.job(job.id)) >= 1 and job.is_done, "the end of the job")
    return verdict(console, client, job, inspect(folder, mongodb))


def verdict(console: Console, client: Client, job: SubmittedJob[Any], found: list[Found]) -> int:
    record = client.job(job.id)
    print_table(console, "after the second attempt", found)
    if record.status is not Status.COMPLETED:
        console.print(f"[red]the job is {record.status.word}: {record.error}[/red]")
        return 1
    console.print(
        f"job {record.id} is {record.status.word} at attempt {record.attempt}, "
        f"{record.losses} run was lost; the sum is {job.result() / 100:,.2f}"
    )
    is_right = all(place[1:] == (ACCOUNTS, ACCOUNTS, []) for place in found)
    console.print("exactly one result, nothing left over" if is_right else "[red]not so![/red]")
    return 0 if is_right and record.attempt == 2 else 1


def inspect(folder: Path, mongodb: str | None) -> list[Found]:
    """Look at the places themselves, without any help of Shunter."""
    found = [in_file(folder), in_table(folder / "report.db")]
    return [*found, in_collection(mongodb)] if mongodb else found


def in_file(folder: Path) -> Found:
    path, staged = folder / "report.csv", sorted(folder.glob(".shunter-staging/*"))
    rows = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
    return found_in("report.csv", rows, [file.name for file in staged])


def in_table(path: Path) -> Found:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = [row["name"] for row in database.execute(query)]
        rows = database.execute("SELECT * FROM report").fetchall() if "report" in names else []
    return found_in("report.db", rows, [name for name in names if name != "report"])


def in_collection(url: str) -> Found:
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](url) as client:
        database = client.get_default_database("reports")
        names = [n for n in database.list_collection_names() if n.startswith("staging_report_")]
        return found_in("MongoDB", list(database["report"].find()), names)


def unreachable(url: str) -> str | None:
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    try:
        with MongoClient[dict[str, Any]](url, serverSelectionTimeoutMS=3000) as client:
            client.admin.command("ping")
    except PyMongoError as error:
        return str(error).partition(" (")[0]
    return None


def found_in(place: str, rows: list[Any], staged: list[str]) -> Found:
    return Found(place, len(rows), len({row["account"] for row in rows}), staged)


def print_table(console: Console, title: str, found: list[Found]) -> None:
    table = Table("place", "rows published", "accounts", "staged", title=title)
    for place, rows, accounts, staged in found:
        table.add_row(place, f"{rows:,}", f"{accounts:,}", "\n".join(staged) or "nothing")
    console.print(table)


@contextmanager
def bar(console: Console, text: str) -> Iterator[Callable[[Job], float]]:
    """Show how far a job is, whenever the yielded function is called."""
    with Progress(TextColumn(text), BarColumn(), TaskProgressColumn(), console=console) as progress:
        line = progress.add_task(text, total=1.0)

        def show(job: Job) -> float:
            done = 1.0 if job.status.is_final else 0.0
            if job.progress is not None and job.progress.total:
                done = max(done, job.progress.done / job.progress.total)
            progress.update(line, completed=done)
            return done

        yield show


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sign of {what} within {PATIENCE:g} s; what the processes said:")
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


if __name__ == "__main__":
    sys.exit(main())
