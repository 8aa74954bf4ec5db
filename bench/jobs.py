"""Shunter: durable, one worker with two slots, handlers that do nothing, results returned.

A real `shunter dispatcher` on an SQLite file or on MongoDB, a real `shunter worker`, and here the
asynchronous client: it submits many jobs and takes every result; then one job at a time, each
submitted when the result of the one before has come.
"""

from __future__ import annotations

import asyncio
import time

from bench.bench_app import echo
from bench.stage import Dispatcher, Stage, conclude, percentile, sizes
from bench.stores import opened
from shunter import AsyncClient

WARM_UP = 500


async def _exchange(client: AsyncClient, jobs: int) -> None:
    """Submit jobs, take all results, and see that they are the right ones."""
    submitted = await client.submit_many(echo, range(jobs))
    results = [await job.result(timeout=60.0) for job in submitted]
    assert results == list(range(jobs))


async def _measure(frontend: str, jobs: int, trips: int) -> None:
    async with AsyncClient(frontend) as client:
        await _exchange(client, WARM_UP)
        began = time.perf_counter()
        await _exchange(client, jobs)
        took = time.perf_counter() - began
        seconds = []
        for number in range(trips):
            sent = time.perf_counter()
            job = await client.submit(echo, number)
            await job.result(timeout=60.0)
            seconds.append(time.perf_counter() - sent)
    conclude(
        jobs_per_second=jobs / took,
        p50_ms=percentile(seconds, 0.5),
        p99_ms=percentile(seconds, 0.99),
    )


def main() -> None:
    chosen = sizes(__doc__ or "", store="sqlite", jobs=50_000, trips=1000)
    with Stage() as stage, opened(chosen.store, stage) as urls:
        dispatcher = Dispatcher(stage, "jobs", urls("jobs")).ready()
        dispatcher.start_worker()
        asyncio.run(_measure(dispatcher.frontend, chosen.jobs, chosen.trips))


if __name__ == "__main__":
    main()
