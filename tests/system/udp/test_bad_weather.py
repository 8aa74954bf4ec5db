"""A network that loses, doubles and reorders packets: every task is done, once, and notified."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import AsyncExitStack

from shunter.client.udp_client import AsyncUdpClient
from shunter.model.job import ErrorKind, Status
from shunter.testing.lossy_relay import LossyRelay, Weather
from system.udp.swarm import Swarm
from system.yard import WITNESS_APP, Yard, until

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


def test_with_default_settings_and_loss_no_task_is_lost_and_the_rate_is_a_tenth_at_least(
    yard: Yard,
) -> None:
    station = yard.dispatcher()
    tasks, clients = 3000, 4

    async def scene(where: tuple[str, int]) -> tuple[list[object], float]:
        ends: list[float] = []

        async def outcome(client: AsyncUdpClient, number: int) -> object:
            task = await client.submit("add", number, 1)
            result = await task.result(timeout=60.0)
            ends.append(time.monotonic())
            return result

        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(AsyncUdpClient(where)) for _ in range(clients)
            ]
            began = time.monotonic()
            results = await asyncio.gather(
                *(outcome(opened[number % clients], number) for number in range(tasks))
            )
        # The rate is that of nine tenths: the last few wait for packets that were lost again and
        # again, which takes seconds, however many tasks there are.
        return results, ends[tasks * 9 // 10] - began

    with LossyRelay(("127.0.0.1", station.udp_port), Weather(), seed=3) as relay:
        for number in range(2):
            where = "{}:{}".format(*relay.address)
            words = ("calculator", "--app", WITNESS_APP, "--dispatcher", where, "--max-jobs", "2")
            yard.process(words, f"calculator-{number}")
        until(lambda: len(yard.client(station).workers()) >= 4)

        def times_as_long_in_bad_weather() -> float:
            relay.weather = Weather()
            _, in_fair_weather = asyncio.run(scene(relay.address))
            relay.weather = Weather(loss=0.3)
            results, seconds = asyncio.run(scene(relay.address))
            assert results == [number + 1 for number in range(tasks)]
            return seconds / in_fair_weather

        # where the machine has more to do in one weather than in the other, once more
        assert any(times_as_long_in_bad_weather() < 10 for _ in range(3))


def test_every_client_hears_that_its_task_was_given_up_though_packets_get_lost(yard: Yard) -> None:
    station = yard.dispatcher(udp__timeout_task_placement=1.0)

    def all_are_confirmed() -> bool:
        return station.counters()["callbacks_delivered"] == 200

    async def scene(where: tuple[str, int]) -> list[str]:
        async with AsyncUdpClient(where) as client:
            added = await asyncio.gather(*(client.submit("add", n, 1) for n in range(200)))
            ends = await asyncio.gather(*(task.wait(60.0) for task in added))
            # confirmations get lost, too, and are asked for again
            await asyncio.to_thread(until, all_are_confirmed)
        return [end.error.kind for end in ends if end.error is not None]

    with LossyRelay(("127.0.0.1", station.udp_port), Weather(loss=0.3), seed=4) as relay:
        kinds = asyncio.run(scene(relay.address))

    assert kinds == [ErrorKind.UNPLACED] * 200
