"""Coroutines that wait: 10,000 times `await asyncio.sleep(0.1)`, 500 at once in two processes.

A real dispatcher on SQLite, and a worker with two slots that each run 500 at once, so a thousand
wait at a time and ten rounds of 0.1 s are the ideal. Beside it, in turns, what plain asyncio needs
for the same: two processes, each with a queue of calls and 500 coroutines that take from it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from statistics import median
from typing import Any

from bench.nap_app import nap
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from shunter import AsyncClient

AT_ONCE = 500
PROCESSES = 2
SECONDS = 0.1
WARM_UP = 1000


async def _jobs(frontend: str, jobs: int) -> float:
    async with AsyncClient(frontend) as client:
        began = time.perf_counter()
        submitted = await client.submit_many(nap, range(jobs))
        results = [await job.result(timeout=120.0) for job in submitted]
        took = time.perf_counter() - began
    assert results == list(range(jobs))
    return took


def _plain_process(calls: Any, results: Any) -> None:
    """Take calls from one queue in batches, 500 at a time, and put their results into the other."""

    async def one(number: int) -> int:
        await asyncio.sleep(SECONDS)
        return number

    async def main() -> None:
        loop, room = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)

        async def bounded(number: int) -> int:
            try:
                return await one(number)
            finally:
                room.release()

        while (batch := await loop.run_in_executor(None, calls.get)) is not None:
            tasks = []
            for number in batch:
                await room.acquire()
                tasks.append(loop.create_task(bounded(number)))
            results.put(await asyncio.gather(*tasks))

    asyncio.run(main())


def _plain(jobs: int) -> float:
    """Do the same with asyncio and queues of multiprocessing alone."""
    context = multiprocessing.get_context("fork")
    calls, results = context.Queue(), context.Queue()
    processes = [
        context.Process(target=_plain_process, args=(calls, results)) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    began = time.perf_counter()
    share = jobs // PROCESSES
    for start in range(0, jobs, share):
        calls.put(list(range(start, start + share)))
    found = [number for _ in range(PROCESSES) for number in results.get()]
    took = time.perf_counter() - began
    assert sorted(found) == list(range(jobs))
    for _ in processes:
        calls.put(None)
    for process in processes:
        process.join()
    return took


def main() -> None:
    chosen = sizes(__doc__ or "", jobs=10_000, rounds=5)
    ours, plain = [], []
    with Stage() as stage:
        dispatcher = Dispatcher(stage, "naps").ready()
        dispatcher.start_worker(app="nap_app")
        asyncio.run(_jobs(dispatcher.frontend, WARM_UP))
        for number in range(chosen.rounds):
            say("naps", number, chosen.rounds)
            plain.append(_plain(chosen.jobs))
            ours.append(asyncio.run(_jobs(dispatcher.frontend, chosen.jobs)))
    ideal = chosen.jobs * SECONDS / (AT_ONCE * PROCESSES)
    conclude(jobs=chosen.jobs, ideal=ideal, ours=median(ours), plain=median(plain))


if __name__ == "__main__":
    main()
