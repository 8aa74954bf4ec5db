"""The limit: what a broker in plain Python with ZeroMQ and SQLite can do here at all.

One process with two ROUTER sockets. Each round drains all that waits, commits it in one
transaction (WAL, `synchronous=FULL`), then forwards jobs and replies. Two DEALER workers that
send back what they get, one DEALER client that keeps many jobs on their way. No leases, no
types, no retries, no handlers, nobody may die: what Shunter adds is measured against this.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time

import zmq

from bench.stage import Stage, conclude, free_ports, percentile, sizes

UNDER_WAY = 2000
WARM_UP = 500


def broker(frontend: str, backend: str, path: str) -> None:
    context = zmq.Context()
    front, back = _router(context, frontend), _router(context, backend)
    poller = zmq.Poller()
    poller.register(front, zmq.POLLIN)
    poller.register(back, zmq.POLLIN)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload BLOB, result BLOB)")
    workers: list[bytes] = []
    clients: dict[int, bytes] = {}
    number = 0
    while True:
        poller.poll()
        accepted, ended = [], []
        for client, _, payload in _waiting(front):
            number += 1
            clients[number] = client
            accepted.append((number, payload))
        for worker, _, name, result in _waiting(back):
            if name:
                ended.append((result, int(name)))
            else:
                workers.append(worker)
        if not accepted and not ended:
            continue
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO jobs (id, payload) VALUES (?, ?)", accepted)
        database.executemany("UPDATE jobs SET result = ? WHERE id = ?", ended)
        database.execute("COMMIT")
        for job, payload in accepted:
            back.send_multipart([workers[job % len(workers)], b"", b"%d" % job, payload])
        for result, job in ended:
            front.send_multipart([clients.pop(job), b"", result])


def worker(backend: str) -> None:
    socket = _dealer(zmq.Context(), backend)
    socket.send_multipart([b"", b"", b""])
    while True:
        socket.send_multipart(socket.recv_multipart())


def client(frontend: str, jobs: int, trips: int) -> None:
    socket = _dealer(zmq.Context(), frontend)
    _exchange(socket, WARM_UP)
    began = time.perf_counter()
    _exchange(socket, jobs)
    took = time.perf_counter() - began
    seconds = []
    for number in range(trips):
        sent = time.perf_counter()
        socket.send_multipart([b"", b"%d" % number])
        socket.recv_multipart()
        seconds.append(time.perf_counter() - sent)
    conclude(
        jobs_per_second=jobs / took,
        p50_ms=percentile(seconds, 0.5),
        p99_ms=percentile(seconds, 0.99),
    )


def _exchange(socket: zmq.Socket[bytes], jobs: int) -> None:
    """Send jobs, some of them ahead of the results, and take all results."""
    sent = received = 0
    while received < jobs:
        while sent < jobs and sent - received < UNDER_WAY:
            socket.send_multipart([b"", b"%d" % sent])
            sent += 1
        socket.poll()
        received += len(_waiting(socket))


def _waiting(socket: zmq.Socket[bytes]) -> list[list[bytes]]:
    messages = []
    try:
        while True:
            messages.append(socket.recv_multipart(zmq.NOBLOCK))
    except zmq.Again:
        return messages


def _router(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.ROUTER)
    socket.set_hwm(0)
    socket.bind(address)
    return socket


def _dealer(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.connect(address)
    return socket


def main() -> None:
    chosen = sizes(__doc__ or "", jobs=100_000, trips=2000)
    with Stage() as stage:
        frontend, backend = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
        path = str(stage.folder / "limit.db")
        role = ("-m", "bench.limit", "as")
        served = stage.start(*role, "broker", frontend, backend, path)
        for _ in range(2):
            stage.start(*role, "worker", backend)
        time.sleep(1.0)
        stage.check(served)
        command = [sys.executable, *role, "client", frontend]
        command += [str(chosen.jobs), str(chosen.trips)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120).stdout
        conclude(**json.loads(printed)["figures"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["as", "broker", frontend, backend, path]:
            broker(frontend, backend, path)
        case ["as", "worker", backend]:
            worker(backend)
        case ["as", "client", frontend, jobs, trips]:
            client(frontend, int(jobs), int(trips))
        case _:
            main()
