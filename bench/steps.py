"""What a step costs: jobs with one kept step beside plain jobs, on one worker with two slots.

A job with one step needs two commits, its own and the step's; two plain jobs need as many. Both
kinds are measured in turns, so that they have the same machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.bench_app import echo, stepped
from bench.stage import Dispatcher, Stage, conclude, sizes
from bench.stores import opened
from shunter import AsyncClient

WARM_UP = 300


async def _rate(client: AsyncClient, handler: object, jobs: int) -> float:
    """Return how many jobs a second are done, with their results taken."""
    began = time.perf_counter()
    submitted = await client.submit_many(handler, range(jobs))  # type: ignore[arg-type]
    results = [await job.result(timeout=120.0) for job in submitted]
    assert results == list(range(jobs))
    return jobs / (time.perf_counter() - began)


async def _measure(frontend: str, jobs: int, rounds: int) -> None:
    plain, with_step = [], []
    async with AsyncClient(frontend) as client:
        for handler in (echo, stepped):
            await _rate(client, handler, WARM_UP)
        for _ in range(rounds):
            plain.append(await _rate(client, echo, jobs))
            with_step.append(await _rate(client, stepped, jobs))
    plain_rate, step_rate = statistics.median(plain), statistics.median(with_step)
    conclude(
        plain_per_second=plain_rate,
        stepped_per_second=step_rate,
        against_two_plain=2 * step_rate / plain_rate,
    )


def main() -> None:
    chosen = sizes(__doc__ or "", store="sqlite", jobs=5_000, rounds=3)
    with Stage() as stage, opened(chosen.store, stage) as urls:
        dispatcher = Dispatcher(stage, "steps", urls("steps")).ready()
        dispatcher.start_worker()
        asyncio.run(_measure(dispatcher.frontend, chosen.jobs, chosen.rounds))


if __name__ == "__main__":
    main()
