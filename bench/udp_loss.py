"""Tasks over UDP through a network that loses packets, beside the same without loss.

A real `shunter dispatcher` with default settings, real `shunter calculator`, a relay in a process
of its own that loses packets in both directions, and here the clients. All tasks are added at
once, and each client waits until it has heard how every task of its own ended.
`python -m bench.udp_loss --loss 30 --tasks 3000` prints, for the loss and for none, how the tasks
ended, how many clients were never told, and the rate.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.bench_app import echo
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from shunter import AsyncClient, AsyncUdpClient
from shunter.client.udp_client import AsyncTask
from shunter.errors import DispatcherBusy, ShunterError, Unreachable
from shunter.testing.lossy_relay import LossyRelay, Weather

START_SECONDS = 30.0
BUSY_SECONDS = 0.5


def relay(upstream: int, loss: float) -> None:
    """Relay until standard input ends; say at which port, then what was relayed."""
    with LossyRelay(("127.0.0.1", upstream), Weather(loss=loss), seed=7) as made:
        print(made.address[1], flush=True)
        sys.stdin.read()
        print(made.traffic, file=sys.stderr, flush=True)


async def _add(client: AsyncUdpClient, number: int) -> AsyncTask:
    while True:
        try:
            return await client.submit(echo, number)
        except DispatcherBusy:
            await asyncio.sleep(BUSY_SECONDS)


async def _one(client: AsyncUdpClient, number: int, until: float) -> str:
    """Add a task, and return how it ended for its client."""
    try:
        task = await _add(client, number)
        assert await task.result(timeout=max(1.0, until - time.monotonic())) == number
    except Unreachable:
        return "not added"
    except ShunterError as error:
        return type(error).__name__
    return "done"


async def _measure(where: tuple[str, int], clients: int, tasks: int, seconds: int) -> Any:
    opened = [AsyncUdpClient(where) for _ in range(clients)]
    began = time.monotonic()
    until = began + seconds
    try:
        ends = await asyncio.gather(
            *(_one(opened[number % clients], number, until) for number in range(tasks))
        )
    finally:
        for client in opened:
            await client.close()
    took = time.monotonic() - began
    return Counter(ends), took


async def _present(frontend: str, calculators: int) -> None:
    async with AsyncClient(frontend) as client, asyncio.timeout(START_SECONDS):
        while len(await client.workers()) < calculators:
            await asyncio.sleep(0.05)


async def _counters(frontend: str) -> dict[str, int]:
    async with AsyncClient(frontend) as client:
        return (await client.standing()).counters


def _run(loss: int, chosen: Any) -> dict[str, Any]:
    with Stage() as stage:
        dispatcher = Dispatcher(stage, "udp", has_udp=True).ready()
        between = subprocess.Popen(
            [sys.executable, "-m", "bench.udp_loss", "relay", str(dispatcher.udp[1]), str(loss)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert between.stdout is not None
        assert between.stdin is not None
        port = int(between.stdout.readline())
        try:
            app = str(Path(__file__).with_name("bench_app.py"))
            command = ("-m", "shunter", "calculator", "--app", f"{app}:app")
            for _ in range(chosen.calculators):
                stage.start(
                    *command, "--dispatcher", f"127.0.0.1:{port}", "--max-jobs", str(chosen.slots)
                )
            asyncio.run(_present(dispatcher.frontend, chosen.calculators * chosen.slots))
            ends, took = asyncio.run(
                _measure(("127.0.0.1", port), chosen.clients, chosen.tasks, chosen.seconds)
            )
            counters = asyncio.run(_counters(dispatcher.frontend))
        finally:
            between.stdin.close()
            between.wait(10)
    return {
        "loss": loss,
        "ends": dict(ends),
        "seconds": round(took, 1),
        "done_per_second": round(ends["done"] / took, 1),
        "counters": counters,
    }


def main() -> None:
    chosen = sizes(
        __doc__ or "",
        loss=30, tasks=3000, clients=3, calculators=2, slots=2, seconds=200, skip=0,
    )  # fmt: skip
    figures = {}
    for number, loss in enumerate([chosen.loss] if chosen.skip else [0, chosen.loss]):
        say(f"{loss} %", number, 2)
        figures[str(loss)] = _run(loss, chosen)
        print(json.dumps(figures[str(loss)]), flush=True)
    conclude(**figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        relay(int(sys.argv[2]), int(sys.argv[3]) / 100)
    else:
        main()
