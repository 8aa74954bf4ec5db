"""The main job of `make run`: a dispatcher, two workers, a few thousand jobs, a table.

Everything is real and on loopback: processes, ZeroMQ sockets, a SQLite file in a temporary
folder. Later parts of Shunter add theirs here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shunter import Client, SubmittedJob, Unreachable
from shunter.client.handle import value_of

APP = Path(__file__).with_name("app.py")
PRIMES_BELOW_A_MILLION = 78_498
WORKERS = 2


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
        frontend, backend, http = free_ports(3)
        environ = {
            **os.environ,
            "SHUNTER__STORE__URL": f"sqlite:///{folder}/shunter.db",
            "SHUNTER__ZMQ__FRONTEND": f"tcp://127.0.0.1:{frontend}",
            "SHUNTER__ZMQ__BACKEND": f"tcp://127.0.0.1:{backend}",
            "SHUNTER__HTTP__PORT": str(http),
            "SHUNTER__UDP__CLIENT_ADDRESS__PORT": "0",
        }
        command = [sys.executable, "-m", "shunter", "up", "--app", str(APP)]
        with (
            open(f"{folder}/log", "w+") as log,
            subprocess.Popen([*command, "--workers", str(WORKERS)], env=environ, stderr=log) as up,
        ):
            try:
                with Client(f"tcp://127.0.0.1:{frontend}", timeout=30) as client:
                    wait_for_workers(console, client)
                    return run_jobs(console, client)
            except Unreachable as error:
                log.seek(0)
                console.print(f"[red]{error}[/red]\n{log.read()}")
                return 1
            finally:
                up.send_signal(signal.SIGTERM)


def wait_for_workers(console: Console, client: Client) -> None:
    with console.status("starting a dispatcher and two workers"):
        deadline = time.monotonic() + 30
        while len(client.workers()) < WORKERS and time.monotonic() < deadline:
            time.sleep(0.05)
    console.print(f"a dispatcher on SQLite and {len(client.workers())} workers are up")


def run_jobs(console: Console, client: Client) -> int:
    started = time.monotonic()
    calls: dict[str, list[object]] = {
        "count_primes": [(n * 1000, (n + 1) * 1000) for n in range(1000)],
        "factor": [10**9 + n for n in range(1000)],
        "fingerprint": [f"line {n}" for n in range(1000)],
        "moody": list(range(100)),
    }
    jobs: dict[SubmittedJob, str] = {}
    for job_type, arguments in calls.items():
        jobs.update((job, job_type) for job in client.submit_many(job_type, arguments))
    accepted = time.monotonic()
    results: defaultdict[str, list[object]] = defaultdict(list)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("jobs done", total=len(jobs))
        for job in client.as_completed(jobs, timeout=120):
            results[jobs[job]].append(value_of(job.wait()))
            progress.advance(bar)
    took = time.monotonic() - started
    primes = sum(int(str(count)) for count in results["count_primes"])
    print_table(console, results, primes)
    counters = client.standing().counters
    console.print(
        f"{len(jobs):,} jobs in {took:.1f} s; all were on disk after {accepted - started:.2f} s; "
        f"{counters.get('jobs_failed', 0)} failed for good, "
        f"{len(results['moody']) // 5} failed once and were tried again"
    )
    return 0 if primes == PRIMES_BELOW_A_MILLION and len(jobs) == 3100 else 1


def print_table(console: Console, results: dict[str, list[object]], primes: int) -> None:
    samples = {
        "count_primes": f"{primes:,} primes below a million",
        "factor": f"1000000007 has the factors {_find(results['factor'], [1000000007])}",
        "fingerprint": f"{len(set(map(str, results['fingerprint'])))} different hashes",
        "moody": "every fifth failed at first",
    }
    table = Table("job", "done", "result", title="what the workers found")
    for job_type, sample in samples.items():
        table.add_row(job_type, f"{len(results[job_type]):,}", sample)
    console.print(table)


def _find(found: list[object], wanted: object) -> object:
    return wanted if wanted in found else "none"


if __name__ == "__main__":
    sys.exit(main())
