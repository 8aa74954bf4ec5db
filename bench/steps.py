"""What a step costs: jobs with one kept step beside plain jobs, in turns.

A job with one step needs two commits, its own and the step's; two plain jobs need as many. That is
compared where many jobs are under way in each process, so that commits are shared. Where a slot
does one job after the other it waits for each step: so trips one by one are timed, too. A trip of a
plain job is two commits, and one with a step is three.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from bench.shared_app import shared, shared_stepped
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from bench.stores import opened
from shunter import AsyncClient

WARM_UP = 300
KINDS = {"plain": shared, "stepped": shared_stepped}


async def _jobs(client: AsyncClient, kind: str, jobs: int) -> float:
    """Return how long all of them take, with their results taken."""
    began = time.perf_counter()
    submitted = await client.submit_many(KINDS[kind], range(jobs))
    results = [await job.result(timeout=120.0) for job in submitted]
    assert results == list(range(jobs))
    return time.perf_counter() - began


async def _trips(client: AsyncClient, kind: str, trips: int) -> float:
    """Return how long one trip takes mostly, with nothing else under way."""
    times = []
    for number in range(trips):
        began = time.perf_counter()
        job = await client.submit(KINDS[kind], number)
        await job.result(timeout=30.0)
        times.append(time.perf_counter() - began)
    return median(times)


async def _measure(dispatcher: Dispatcher, jobs: int, trips: int, rounds: int) -> None:
    found: dict[str, dict[str, list[float]]] = {
        kind: {"per_second": [], "cpu_us": [], "trip_ms": []} for kind in KINDS
    }
    async with AsyncClient(dispatcher.frontend) as client:
        for kind in KINDS:
            await _jobs(client, kind, WARM_UP)
        for number in range(rounds):
            say("steps", number, rounds)
            for kind, figures in found.items():
                own = dispatcher.cpu_seconds()
                figures["per_second"].append(jobs / await _jobs(client, kind, jobs))
                figures["cpu_us"].append((dispatcher.cpu_seconds() - own) / jobs * 1e6)
                figures["trip_ms"].append(await _trips(client, kind, trips) * 1e3)
    plain, stepped = (
        {name: median(values) for name, values in found[kind].items()} for kind in KINDS
    )
    conclude(
        plain=plain,
        stepped=stepped,
        against_two_plain=2 * stepped["per_second"] / plain["per_second"],
        cpu_of_two_plain=stepped["cpu_us"] / plain["cpu_us"] / 2,
        part_of_a_trip=stepped["trip_ms"] / plain["trip_ms"] - 1,
    )


def main() -> None:
    chosen = sizes(__doc__ or "", store="sqlite", jobs=5_000, trips=500, rounds=3)
    with Stage() as stage, opened(chosen.store, stage) as urls:
        dispatcher = Dispatcher(stage, "steps", urls("steps")).ready()
        dispatcher.start_worker(app="shared_app")
        asyncio.run(_measure(dispatcher, chosen.jobs, chosen.trips, chosen.rounds))


if __name__ == "__main__":
    main()
