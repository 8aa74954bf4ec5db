"""How dispatchers are configured and come up, and what they say when they can't."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from shunter.client import Client
from system.yard import PATIENCE, WITNESS_APP, Station, Yard, free_port, until

TABLES = """
[store]
url = "{store_url}"
[zmq]
frontend = "{frontend}"
backend = "{backend}"
worker_expire_seconds = 3.0
resend_after_seconds = 60.0
[worker]
broker_timeout = 1.0
n_timeouts = 3
max_jobs = 2
[udp]
client_address = {{ host = "127.0.0.1", port = {udp_port} }}
timeout_task_placement = 120.0
confirm_timeout = 5.0
heartbeat_timeout = 10.0
task_timeout = 60.0
[http]
host = "127.0.0.1"
port = {http_port}
[dispatcher.jobs]
cooldown_period = 0
job_verification_interval = 10000
[dispatcher.workers]
ping_interval = 30000
max_retries = 3
dead_worker_ping_interval = 60000
dead_worker_max_retries = 10
"""


def dotted(tables: str) -> str:
    """Write the same settings without tables."""
    table, lines = "", []
    for line in tables.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif line:
            lines.append(f"{table}.{line}")
    return "\n".join(lines)


@pytest.mark.parametrize("written", [TABLES, dotted(TABLES)], ids=["tables", "dotted-keys"])
def test_a_dispatcher_takes_every_designed_key_and_becomes_healthy(
    yard: Yard, written: str
) -> None:
    station = Station(yard, "configured", {})
    path = yard.folder / "all.toml"
    path.write_text(
        written.format(
            store_url=station.settings["store.url"],
            frontend=station.frontend,
            backend=station.backend,
            http_port=station.http_port,
            udp_port=station.udp_port,
        )
    )
    assert station.health() == 0

    station.process = yard.process(("dispatcher", "--config", str(path)), "configured")
    seen = {until(station.health)}
    until(lambda: seen.add(station.health()) or 200 in seen)

    assert seen <= {200, 503}
    yard.worker(station)
    assert yard.client(station).submit("add", 1, 2).result(PATIENCE) == 3


def test_a_dispatcher_is_not_healthy_after_it_left(yard: Yard) -> None:
    station = yard.dispatcher()
    assert station.health() == 200

    assert station.process.terminate() == 0

    assert station.health() == 0


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("zmq.frontend = 5", ("zmq.frontend", "5", "tcp://host:port")),
        ('zmq.frontend = "localhost:5"', ("zmq.frontend", "localhost:5", "tcp://host:port")),
        ("http.port = 70000", ("http.port", "70000", "0 to 65535")),
        ("worker.max_jobs = 0", ("worker.max_jobs", "0", "1 to 1024")),
        ("zmq.resend_after_seconds = -1", ("zmq.resend_after_seconds", "-1", "above 0")),
        ("zmq.frontent = 1", ("zmq.frontent", "frontend")),
        ('dispatcher.jobs.unknown_types = "x"', ("unknown_types", "x", "refuse")),
        ("lease.heartbeat = 9.0", ("lease", "heartbeat")),
        ('store.url = "postgres://x"', ("store.url", "postgres://x", "sqlite:///")),
        ("zmq = [", ("line",)),
    ],
)
def test_a_bad_setting_is_named_with_file_key_found_and_allowed(
    yard: Yard, line: str, named: tuple[str, ...]
) -> None:
    path = yard.folder / "bad.toml"
    path.write_text(line + "\n")

    done = yard.shunter("dispatcher", "--config", str(path))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "bad.toml" in done.stderr
    assert all(word in done.stderr for word in named), done.stderr


def test_a_config_file_that_is_not_there_is_named(yard: Yard) -> None:
    done = yard.shunter("dispatcher", "--config", str(yard.folder / "missing.toml"))

    assert done.returncode == 2
    assert "missing.toml" in done.stderr


@pytest.mark.parametrize("key", ["zmq.frontend", "zmq.backend", "http.port"])
def test_an_address_in_use_is_said_clearly(yard: Yard, key: str) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        station = Station(yard, "taken", {})
        station.settings[key] = port if key == "http.port" else f"tcp://127.0.0.1:{port}"
        path = yard.config("taken", station.settings)

        done = yard.shunter("dispatcher", "--config", str(path))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert key in done.stderr
    assert str(port) in done.stderr
    assert "in use" in done.stderr


def test_a_store_that_can_not_be_opened_is_said_clearly(yard: Yard) -> None:
    station = Station(yard, "store", {"store.url": f"sqlite:///{yard.folder}/no/such/folder/x.db"})
    path = yard.config("store", station.settings)

    done = yard.shunter("dispatcher", "--config", str(path))

    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "no/such/folder" in done.stderr


def test_a_disabled_gateway_does_not_start(yard: Yard) -> None:
    station = Station(yard, "no-http", {"http.enabled": False})
    path = yard.config("no-http", station.settings)
    station.process = yard.process(("dispatcher", "--config", str(path)), "no-http")

    with Client(station.frontend, timeout=PATIENCE) as client:
        assert client.standing().dispatcher_id
    assert station.health() == 0


def test_a_worker_whose_app_can_not_be_loaded_says_so(yard: Yard) -> None:
    done = yard.shunter("worker", "--app", str(yard.folder / "nothing.py"))

    assert done.returncode == 2
    assert "nothing.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_up_runs_a_dispatcher_with_workers_and_ends_them_at_sigterm(yard: Yard) -> None:
    station = Station(yard, "up", {"worker.grace_seconds": 5.0})
    path = yard.config("up", station.settings)
    words = ("up", "--app", WITNESS_APP, "--workers", "2", "--config", str(path))
    station.process = yard.process(words, "up")
    client = yard.client(station)
    assert client.submit("add", 2, 3).result(PATIENCE) == 5
    until(lambda: len(client.workers()) == 2)
    pids = [int(worker.id.split("-")[-2]) for worker in client.workers()]

    assert station.process.terminate() == 0

    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="workers left")


def test_workers_of_up_do_not_outlive_its_kill(yard: Yard) -> None:
    station = Station(yard, "up", {})
    path = yard.config("up", station.settings)
    words = ("up", "--app", WITNESS_APP, "--workers", "1", "--config", str(path))
    station.process = yard.process(words, "up")
    client = yard.client(station)
    [worker] = until(client.workers)
    pid = int(worker.id.split("-")[-2])

    station.process.kill()

    try:
        until(lambda: not Path(f"/proc/{pid}").exists(), what="the worker is gone")
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)


def test_a_store_in_use_by_a_long_write_does_not_bring_the_dispatcher_down(yard: Yard) -> None:
    import sqlite3

    station = yard.dispatcher()
    client = yard.client(station)
    path = station.settings["store.url"].removeprefix("sqlite:///")
    hold = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    hold.execute("BEGIN IMMEDIATE")
    release = threading.Timer(3.0, lambda: hold.execute("ROLLBACK"))
    release.start()
    try:
        job = client.submit("add", 1, 1)
        assert client.job(job.id).id == job.id
    finally:
        release.join()
        hold.close()
    assert station.process.is_alive
