"""A network that loses, doubles and reorders packets: every task is done, once, and notified."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

from shunter.client.udp_client import AsyncUdpClient
from shunter.model.job import Status
from shunter.testing.lossy_relay import LossyRelay, Weather
from system.udp.swarm import Swarm
from system.yard import Yard

TASKS = int(os.environ.get("SHUNTER_TASKS", "1000"))
"""10,000 in `make soak`."""

WEATHER = Weather(loss=0.3, doubles=0.1, held_back=0.1)


def test_every_task_is_done_once_and_notified_in_bad_weather(yard: Yard) -> None:
    station = yard.dispatcher(udp__max_tasks_per_client=100_000, udp__timeout_task_placement=600.0)
    numbers = list(range(TASKS))
    random.Random(5).shuffle(numbers)

    async def scene(relay: LossyRelay) -> tuple[list[object], Counter[str]]:
        swarm = Swarm(relay.address, 100)
        try:
            async with (
                asyncio.timeout(100 + TASKS / 20),
                AsyncUdpClient(relay.address, timeout=60.0) as client,
            ):
                tasks = await asyncio.gather(
                    *(client.add_task(task_id=number, payload=number) for number in numbers)
                )
                return [await task.result() for task in tasks], swarm.runs
        finally:
            swarm.close()

    with LossyRelay(("127.0.0.1", station.udp_port), WEATHER, seed="weather") as relay:
        results, runs = asyncio.run(scene(relay))

    assert results == numbers
    assert sorted(runs) == sorted(map(str, numbers))
    assert yard.client(station).standing().backlog == (("default", Status.COMPLETED, TASKS),)
    # A second run is fenced; it should be rare all the same.
    assert sum(count - 1 for count in runs.values()) <= TASKS / 100
