"""Several dispatchers over one store: what the second and the fourth cost or bring.

One, two and four `shunter dispatcher`, in turns, each time with a store that is new: an SQLite
file, or a database of a MongoDB server. One `shunter worker` with two slots that is connected to
all of them, and here a client for each, which knows them all and turns to its own first: the jobs
are shared out among the clients, submitted at once, and every result is taken. All of this has
the same few cores, so a second dispatcher brings no more of them: what it must not do is stand in
the way of the first.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

from bench.bench_app import echo
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from bench.stores import STORES, opened
from shunter import AsyncClient

COUNTS = (1, 2, 4)
WARM_UP = 2000
EXPLAINING = ("jobs_claimed", "writes_refused", "reports_refused", "results_undelivered")
"""What dispatchers have counted that says how they got on with each other."""


async def _share(client: AsyncClient, numbers: range) -> None:
    submitted = await client.submit_many(echo, numbers)
    assert [await job.result(timeout=60.0) for job in submitted] == list(numbers)


async def _exchange(clients: list[AsyncClient], jobs: int) -> None:
    """Have every client submit its part of the jobs, and take its results."""
    part = jobs // len(clients)
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(_share(client, range(part)))


async def _time(dispatchers: list[Dispatcher], jobs: int) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        addresses = [each.frontend for each in dispatchers]
        clients = [
            await stack.enter_async_context(AsyncClient(*addresses[place:], *addresses[:place]))
            for place in range(len(addresses))
        ]
        await _exchange(clients, WARM_UP)
        cpu, began = sum(each.cpu_seconds() for each in dispatchers), time.perf_counter()
        await _exchange(clients, jobs)
        took = time.perf_counter() - began
        spent = sum(each.cpu_seconds() for each in dispatchers) - cpu
        counted: Counter[str] = Counter()
        for client in clients:
            counted.update((await client.standing()).counters)
    return {
        "jobs_per_second": jobs / took,
        "dispatchers_cpu_ms": spent / jobs * 1000,
        **{name: counted[name] for name in EXPLAINING},
    }


def _run(count: int, store: str, jobs: int) -> dict[str, Any]:
    with Stage() as stage:
        started = [Dispatcher(stage, f"d{number}", store) for number in range(count)]
        first, *others = [each.ready() for each in started]
        first.start_worker(*others)
        return asyncio.run(_time(started, jobs))


def main() -> None:
    chosen = sizes(__doc__ or "", stores=",".join(STORES), sqlite=60_000, mongodb=24_000, rounds=5)
    kinds = chosen.stores.split(",")
    found: dict[str, Any] = {}
    total, done = len(kinds) * chosen.rounds * len(COUNTS), 0
    for kind in kinds:
        jobs = getattr(chosen, kind)
        runs: dict[int, list[dict[str, Any]]] = {count: [] for count in COUNTS}
        with Stage() as stage, opened(kind, stage) as urls:
            for number in range(chosen.rounds):
                for count in COUNTS:
                    say(f"{kind}, {count} dispatchers", done, total)
                    runs[count].append(_run(count, urls(f"run{number}of{count}"), jobs))
                    done += 1
        middle = {
            str(count): {"jobs_per_second": median(run["jobs_per_second"] for run in some)}
            for count, some in runs.items()
        }
        found[kind] = {"jobs": jobs, "by_count": middle, "runs": runs}
    conclude(**found)


if __name__ == "__main__":
    main()
