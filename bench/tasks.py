"""Tasks over UDP, from `add_task` to the confirmed notice of success, beside a bare echo.

A real `shunter dispatcher` on an SQLite file, two real `shunter calculator` with one slot each,
and here the asynchronous client: it keeps some tasks under way until all have succeeded; then one
task at a time, each added when the notice of the one before has come. The echo is measured before
each of these, in turns. In the end the dispatcher must have a confirmation of every notice.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.bench_app import echo
from bench.figures import middle
from bench.stage import Dispatcher, Stage, conclude, free_ports, percentile, say, sizes
from shunter import AsyncClient, AsyncUdpClient

CALCULATORS = 2
UNDER_WAY = 200
WARM_UP = 2000
START_SECONDS = 30.0
EXCHANGE_SECONDS = 100.0


async def _add_each(client: AsyncUdpClient, numbers: Iterator[int]) -> None:
    for number in numbers:
        task = await client.submit(echo, number)
        assert await task.result() == number


async def _exchange(client: AsyncUdpClient, tasks: int) -> None:
    """Add tasks, so many at a time, until all have succeeded."""
    numbers = iter(range(tasks))
    async with asyncio.timeout(EXCHANGE_SECONDS), asyncio.TaskGroup() as group:
        for _ in range(UNDER_WAY):
            group.create_task(_add_each(client, numbers))


async def _confirmed(frontend: str, tasks: int) -> None:
    """Wait until the dispatcher has written down that so many notices were confirmed."""
    async with AsyncClient(frontend) as client, asyncio.timeout(EXCHANGE_SECONDS):
        while (counters := (await client.standing()).counters)["callbacks_delivered"] < tasks:
            await asyncio.sleep(0.05)
    assert counters["callbacks_delivered"] == tasks, counters


async def _measure(dispatcher: Dispatcher, tasks: int, trips: int) -> dict[str, float]:
    async with AsyncUdpClient(dispatcher.udp) as client:
        await _exchange(client, WARM_UP)
        cpu, began = dispatcher.cpu_seconds(), time.perf_counter()
        await _exchange(client, tasks)
        took = time.perf_counter() - began
        spent = dispatcher.cpu_seconds() - cpu
        seconds = []
        for number in range(trips):
            added = time.perf_counter()
            task = await client.submit(echo, number)
            await task.result(timeout=EXCHANGE_SECONDS)
            seconds.append(time.perf_counter() - added)
        await _confirmed(dispatcher.frontend, WARM_UP + tasks + trips)
    return {
        "tasks_per_second": tasks / took,
        "p50_ms": percentile(seconds, 0.5),
        "p99_ms": percentile(seconds, 0.99),
        "dispatcher_cpu_ms": spent / tasks * 1000,
    }


async def _present(frontend: str) -> None:
    """Wait until all calculators are there."""
    async with AsyncClient(frontend) as client, asyncio.timeout(START_SECONDS):
        while len(await client.workers()) < CALCULATORS:
            await asyncio.sleep(0.05)


def _echo(exchanges: int, trips: int) -> dict[str, float]:
    with Stage() as stage:
        (port,) = map(str, free_ports(1))
        server = stage.start("-m", "bench.udp_echo", "serve", port)
        time.sleep(0.5)
        stage.check(server)
        command = [sys.executable, "-m", "bench.udp_echo", "ask", port, str(exchanges), str(trips)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120).stdout
    figures: dict[str, float] = json.loads(printed)["figures"]
    return figures


def _tasks(tasks: int, trips: int) -> dict[str, float]:
    with Stage() as stage:
        dispatcher = Dispatcher(stage, "udp", has_udp=True).ready()
        app = str(Path(__file__).with_name("bench_app.py"))
        where = "{}:{}".format(*dispatcher.udp)
        command = ("-m", "shunter", "calculator", "--app", f"{app}:app", "--dispatcher", where)
        for _ in range(CALCULATORS):
            stage.start(*command, "--max-jobs", "1")
        asyncio.run(_present(dispatcher.frontend))
        return asyncio.run(_measure(dispatcher, tasks, trips))


def main() -> None:
    chosen = sizes(__doc__ or "", tasks=20_000, trips=1000, packets=100_000, rounds=3)
    runs: dict[str, list[Any]] = {"echo": [], "shunter": []}
    for number in range(chosen.rounds):
        say("an echo", number, chosen.rounds)
        runs["echo"].append(_echo(chosen.packets // 2, chosen.trips))
        say("tasks", number, chosen.rounds)
        runs["shunter"].append(_tasks(chosen.tasks, chosen.trips))
    conclude(**{name: middle(some) for name, some in runs.items()})


if __name__ == "__main__":
    main()
