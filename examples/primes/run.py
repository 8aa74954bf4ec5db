"""The main job of `make run`: a dispatcher, two workers, a few thousand jobs, a flow, three tables.

Everything is real and on loopback: processes, sockets, a SQLite file in a temporary folder. Most
jobs come over ZeroMQ, some of them a second and a third time, over UDP and over HTTP. The flow is
that of examples/temperatures, on a Spark that runs in this program.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import chdir
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shunter import Client, Flow, ShunterError, SubmittedJob, UdpClient
from shunter.client.handle import value_of
from shunter.flow import spark_session

APP = Path(__file__).with_name("app.py")
FLOW = Path(__file__).parents[1] / "temperatures" / "flow.py"
PRIMES_BELOW_A_MILLION = 78_498
PRIMES_BELOW_A_HUNDRED_THOUSAND = 9_592
CHANGES_OF_TEMPERATURE = 14
WORKERS = 2


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(type=kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
        frontend, backend, http = free_port(), free_port(), free_port()
        udp = free_port(socket.SOCK_DGRAM)
        environ = {
            **os.environ,
            "SHUNTER__STORE__URL": f"sqlite:///{folder}/shunter.db",
            "SHUNTER__ZMQ__FRONTEND": f"tcp://127.0.0.1:{frontend}",
            "SHUNTER__ZMQ__BACKEND": f"tcp://127.0.0.1:{backend}",
            "SHUNTER__HTTP__PORT": str(http),
            "SHUNTER__UDP__CLIENT_ADDRESS__PORT": str(udp),
        }
        command = [sys.executable, "-m", "shunter", "up", "--app", str(APP)]
        with (
            open(f"{folder}/log", "w+") as log,
            subprocess.Popen([*command, "--workers", str(WORKERS)], env=environ, stderr=log) as up,
        ):
            try:
                with Client(f"tcp://127.0.0.1:{frontend}", timeout=30) as client:
                    wait_for_workers(console, client)
                    is_right = run_jobs(console, client)
                    is_same = run_three_ways(console, client, udp, http)
                    is_watched = run_flow(console, folder)
                    return 0 if is_right and is_same and is_watched else 1
            except ShunterError as error:
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


def run_jobs(console: Console, client: Client) -> bool:
    started = time.monotonic()
    calls: dict[str, list[object]] = {
        "count_primes": [(n * 1000, (n + 1) * 1000) for n in range(1000)],
        "factor": [10**9 + n for n in range(1000)],
        "fingerprint": [f"line {n}" for n in range(1000)],
        "moody": list(range(100)),
    }
    jobs: dict[SubmittedJob[Any], str] = {}
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
    return primes == PRIMES_BELOW_A_MILLION and len(jobs) == 3100


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


def run_three_ways(console: Console, client: Client, udp: int, http: int) -> bool:
    """Have the same jobs done for three clients, and say whether all heard the same."""
    calls = [(n * 10_000, (n + 1) * 10_000) for n in range(10)]
    jobs = client.submit_many("count_primes", calls)
    counts = {"ZeroMQ": [job.result(timeout=30) for job in jobs]}
    with UdpClient(("127.0.0.1", udp)) as by_udp:
        tasks = by_udp.submit_many("count_primes", calls)
        counts["UDP"] = [task.result(timeout=30) for task in tasks]
    counts["HTTP"] = results_over_http(f"http://127.0.0.1:{http}/dispatcher/jobs/", calls)
    table = Table("client", "jobs", "answer", title="the same jobs, three ways in")
    for way, found in counts.items():
        table.add_row(way, f"{len(found)}", f"{sum(found):,} primes below 100,000")
    console.print(table)
    return all(sum(found) == PRIMES_BELOW_A_HUNDRED_THOUSAND for found in counts.values())


def results_over_http(url: str, calls: list[tuple[int, int]]) -> list[int]:
    straight = build_opener(ProxyHandler({}))

    def answer(request: str | Request) -> Any:
        with straight.open(request, timeout=30) as response:
            return json.load(response)

    ids = []
    for call in calls:
        body = json.dumps({"type": "count_primes", "payload": call}).encode()
        headers = {"Content-Type": "application/json"}
        ids.append(answer(Request(url, body, headers))["id"])
    results, deadline = [], time.monotonic() + 30
    for job_id in ids:
        while (job := answer(url + job_id))["status"] != "c" and time.monotonic() < deadline:
            time.sleep(0.01)
        results.append(int(job.get("result") or 0))
    return results


def run_flow(console: Console, folder: str) -> bool:
    """Run a flow over a day of temperatures on Spark, and say whether it found the changes."""
    with console.status("starting Spark"):
        spark = spark_session("local[2]")
    began = time.monotonic()
    with chdir(folder), console.status("a flow on Spark"):
        stages = Flow.load(str(FLOW)).run(on=spark)
        changes = [json.loads(line) for line in Path("changes.jsonl").read_text().splitlines()]
    took = time.monotonic() - began
    spark.stop()
    table = Table("stage", "kind", "in", "out", title=f"a flow on Spark, {took:.1f} s")
    for stage in stages:
        table.add_row(stage.name, stage.kind, f"{stage.taken:,}", f"{stage.given:,}")
    console.print(table)
    for change in changes[:3]:
        console.print(
            "{time} the {machine} was {before} and is {now}: {celsius} °C".format(**change)
        )
    console.print(f"and {len(changes) - 3} more changes in {stages.stages[0].given:,} readings")
    return len(changes) == CHANGES_OF_TEMPERATURE


def _find(found: list[object], wanted: object) -> object:
    return wanted if wanted in found else "none"


if __name__ == "__main__":
    sys.exit(main())
