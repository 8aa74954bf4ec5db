"""What limits cost that never bind: the same jobs with them and without, in turns.

One real dispatcher on each store, with a worker of two slots. Clients submit jobs of four tenants
and take the results: of a type without limits, of one with a limit for each tenant and in all, and
of one that has a rate and takes turns besides. Beside jobs per second there is the processor time
a job, of the dispatcher and of MongoDB's server, which a busy machine changes less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.bench_app import echo, echo_limited, echo_limited_in_turns
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from bench.stores import STORES, opened
from shunter import AsyncClient

TENANTS = 4
WARM_UP = 1000
TYPES = {"without": echo, "limited": echo_limited, "in_turns": echo_limited_in_turns}


async def _exchange(frontend: str, job_type: Callable[[int], int], jobs: int) -> None:
    """Submit jobs of all tenants, and take all results."""
    each = range(jobs // TENANTS)

    async def of(client: AsyncClient, tenant: int) -> None:
        theirs = client.with_options(keys={"tenant": f"tenant-{tenant}"})
        submitted = await theirs.submit_many(job_type, each)
        assert [await job.result(timeout=60.0) for job in submitted] == list(each)

    async with AsyncClient(frontend) as client:
        await asyncio.gather(*(of(client, tenant) for tenant in range(TENANTS)))


def _measured(dispatcher: Dispatcher, server_cpu: Callable[[], float], jobs: int) -> dict[str, Any]:
    found = {}
    for name, job_type in TYPES.items():
        own, servers, began = dispatcher.cpu_seconds(), server_cpu(), time.perf_counter()
        asyncio.run(_exchange(dispatcher.frontend, job_type, jobs))
        found[name] = {
            "jobs_per_second": jobs / (time.perf_counter() - began),
            "cpu_us": (dispatcher.cpu_seconds() - own) / jobs * 1e6,
            "server_cpu_us": (server_cpu() - servers) / jobs * 1e6,
        }
    return found


def main() -> None:
    chosen = sizes(__doc__ or "", sqlite=20_000, mongodb=8_000, rounds=5, only="")
    figures: dict[str, Any] = {}
    for kind in STORES:
        if chosen.only not in ("", kind):
            continue
        runs = []
        with Stage() as stage, opened(kind, stage) as urls:
            dispatcher = Dispatcher(stage, "limits", urls("limits")).ready()
            dispatcher.start_worker()
            for job_type in TYPES.values():
                asyncio.run(_exchange(dispatcher.frontend, job_type, WARM_UP))
            for number in range(chosen.rounds):
                say(f"limits on {kind}", number, chosen.rounds)
                runs.append(_measured(dispatcher, urls.cpu_seconds, getattr(chosen, kind)))
        figures[kind] = {
            name: {what: median(run[name][what] for run in runs) for what in runs[0][name]}
            for name in TYPES
        }
        figures[kind]["runs"] = runs
    conclude(**figures)


if __name__ == "__main__":
    main()
