"""What registered workers cost a dispatcher that has nothing to do.

A `shunter dispatcher` with its default settings and a thousand HTTP workers registered, and one
with none, each on SQLite and on MongoDB: all four at the same time, since each of them sleeps most
of it. The workers are one program that answers health checks, on as many addresses of the
loopback network as there are workers, so that no two share a connection. After all of them have
been seen alive, the processor time of each dispatcher is taken over one health check interval or
more, as a part of one core.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from bench.stage import Dispatcher, Stage, conclude, free_ports, say, sizes
from bench.stores import STORES, opened

SETTLE_SECONDS = 5.0
ALIVE_SECONDS = 60.0
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Worker(asyncio.Protocol):
    """Says that it is well, whatever it is asked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *asked, self._buffer = self._buffer.split(b"\r\n\r\n")
        self._transport.write(OK * len(asked))


def hosts(count: int) -> Iterator[str]:
    """Name so many addresses of this machine, which only this machine can call."""
    return (f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(count))


async def _serve(port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    for host in hosts(count):
        await loop.create_server(Worker, host, port)
    print("ready", flush=True)
    await asyncio.Event().wait()


def _register(dispatcher: Dispatcher, port: int, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", dispatcher.port, timeout=30.0)
    headers = {"Content-Type": "application/json"}
    for number, host in enumerate(hosts(count)):
        if number % 100 == 0:
            say("registering workers", number, count)
        registration = {"hostname": host, "port": port, "handlers": ["echo"], "maxJobs": 2}
        connection.request("PUT", "/dispatcher/workers/", json.dumps(registration), headers)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 201, said
    connection.close()


def _bring(dispatcher: Dispatcher, port: int, count: int) -> None:
    """Register workers, and wait until all were seen alive."""
    _register(dispatcher, port, count)
    _await_alive(dispatcher, count)


def _await_alive(dispatcher: Dispatcher, count: int) -> None:
    deadline = time.monotonic() + ALIVE_SECONDS
    alive = -1
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{dispatcher.address}/dispatcher/workers/") as answer:
            workers = json.load(answer)["workers"]
        alive = sum(worker["state"] == "alive" for worker in workers)
        if alive == count:
            return
        time.sleep(1.0)
    raise RuntimeError(f"{alive} of {count} workers are alive after {ALIVE_SECONDS:g} s")


def _checks(dispatcher: Dispatcher) -> int:
    """Return how many health checks the dispatcher has made, of which none may have failed."""
    with urllib.request.urlopen(f"{dispatcher.address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    counted = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert "shunter_health_checks_failed_total" not in counted, counted
    return int(float(counted.get("shunter_health_checks_total", 0)))


def _spend(seconds: int) -> None:
    for second in range(seconds):
        say("doing nothing", second, seconds)
        time.sleep(1.0)


def _measure(stage: Stage, count: int, seconds: int) -> dict[str, dict[str, Any]]:
    (port,) = free_ports(1)
    stage.start("-m", "bench.idling", "as", "workers", str(port), str(count))
    watched: dict[tuple[str, int], Dispatcher] = {}
    with ExitStack() as stack:
        for kind in STORES:
            urls = stack.enter_context(opened(kind, stage))
            for workers in (0, count):
                name = f"{kind}{workers}"
                watched[kind, workers] = Dispatcher(stage, name, urls(name)).ready()
        with ThreadPoolExecutor() as pool:
            brought = [
                pool.submit(_bring, dispatcher, port, workers)
                for (_, workers), dispatcher in watched.items()
            ]
            for each in brought:
                each.result()
        time.sleep(SETTLE_SECONDS)
        before = {key: _checks(dispatcher) for key, dispatcher in watched.items()}
        cpu = {key: dispatcher.cpu_seconds() for key, dispatcher in watched.items()}
        began = time.perf_counter()
        _spend(seconds)
        took = time.perf_counter() - began
        part = {key: (watched[key].cpu_seconds() - cpu[key]) / took for key in watched}
        checks = {key: _checks(dispatcher) - before[key] for key, dispatcher in watched.items()}
    return {
        kind: {
            "with_none": part[kind, 0],
            "with_all": part[kind, count],
            "checks_per_worker": checks[kind, count] / count,
        }
        for kind in STORES
    }


def main() -> None:
    chosen = sizes(__doc__ or "", workers=1000, seconds=60)
    with Stage() as stage:
        found = _measure(stage, chosen.workers, chosen.seconds)
    conclude(workers=chosen.workers, seconds=chosen.seconds, **found)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["as", "workers", port, count]:
            asyncio.run(_serve(int(port), int(count)))
        case _:
            main()
