"""What it costs that jobs wait for jobs: the same jobs as graphs and without, in turns.

One real dispatcher on each store, with a worker of two slots. A graph has groups of ten jobs that
wait for one, and one that waits for those ten. Then many jobs are parked, and the idle dispatcher
is looked at. Beside jobs per second there is the processor time a job, which a busy machine changes
less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.bench_app import echo
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from bench.stores import STORES, opened
from shunter import AsyncClient

GROUP = 12
GRAPH_JOBS = 9_996
WARM_UP = 240
REST_SECONDS = 2.0


async def _plain(frontend: str, jobs: int) -> None:
    """Submit jobs that wait for nobody, and take all results."""
    async with AsyncClient(frontend, timeout=60.0) as client:
        submitted = await client.submit_many(echo, range(jobs))
        assert [await job.result(timeout=120.0) for job in submitted] == list(range(jobs))


async def _graphs(frontend: str, jobs: int) -> None:
    """Submit as many as graphs, and take all results."""
    async with AsyncClient(frontend, timeout=60.0) as client:
        handles = []
        for start in range(0, jobs, GRAPH_JOBS):
            async with client.workflow("bench") as run:
                for number in range(start, min(start + GRAPH_JOBS, jobs), GROUP):
                    first = run.job(echo, number)
                    middle = [run.job(echo, number, after=first) for _ in range(GROUP - 2)]
                    run.job(echo, number, after=middle)
            handles += run.jobs
        for handle in handles:
            await handle.result(timeout=120.0)


async def _parked(frontend: str, jobs: int) -> None:
    async with AsyncClient(frontend, timeout=60.0) as client:
        for start in range(0, jobs, GRAPH_JOBS):
            async with client.workflow("parked") as run:
                first = run.with_options(delay=86_400.0).job(echo, 0)
                for number in range(1, min(GRAPH_JOBS, jobs - start)):
                    run.job(echo, number, after=first)


WAYS: dict[str, Callable[[str, int], Any]] = {"plain": _plain, "graphs": _graphs}


def _measured(dispatcher: Dispatcher, server_cpu: Callable[[], float], jobs: int) -> dict[str, Any]:
    found = {}
    for name, way in WAYS.items():
        own, servers, began = dispatcher.cpu_seconds(), server_cpu(), time.perf_counter()
        asyncio.run(way(dispatcher.frontend, jobs))
        found[name] = {
            "jobs_per_second": jobs / (time.perf_counter() - began),
            "cpu_us": (dispatcher.cpu_seconds() - own) / jobs * 1e6,
            "server_cpu_us": (server_cpu() - servers) / jobs * 1e6,
        }
    return found


def _idle_share(dispatcher: Dispatcher, seconds: int) -> float:
    time.sleep(REST_SECONDS)
    own = dispatcher.cpu_seconds()
    time.sleep(seconds)
    return (dispatcher.cpu_seconds() - own) / seconds


def _parked_figures(stage: Stage, store: str, parked: int, seconds: int) -> dict[str, Any]:
    """Look at a dispatcher of its own that is idle, without and with parked jobs."""
    dispatcher = Dispatcher(stage, "parked", store).ready()
    dispatcher.start_worker()
    before = _idle_share(dispatcher, seconds)
    asyncio.run(_parked(dispatcher.frontend, parked))
    return {
        "parked": parked,
        "idle_share_before": before,
        "idle_share": _idle_share(dispatcher, seconds),
        "megabytes": dispatcher.resident_megabytes(),
    }


def main() -> None:
    chosen = sizes(
        __doc__ or "", sqlite=100_000, mongodb=24_000, parked=10_000, idle=20, rounds=3, only=""
    )
    figures: dict[str, Any] = {}
    for kind in STORES:
        if chosen.only not in ("", kind):
            continue
        runs = []
        with Stage() as stage, opened(kind, stage) as urls:
            dispatcher = Dispatcher(stage, "workflows", urls("workflows")).ready()
            dispatcher.start_worker()
            for way in WAYS.values():
                asyncio.run(way(dispatcher.frontend, WARM_UP))
            for number in range(chosen.rounds):
                say(f"workflows on {kind}", number, chosen.rounds)
                runs.append(_measured(dispatcher, urls.cpu_seconds, getattr(chosen, kind)))
        with Stage() as stage, opened(kind, stage) as urls:
            parked = _parked_figures(stage, urls("parked"), chosen.parked, chosen.idle)
        figures[kind] = {
            name: {what: median(run[name][what] for run in runs) for what in runs[0][name]}
            for name in WAYS
        }
        figures[kind] |= {"runs": runs, "jobs": getattr(chosen, kind)} | parked
        plain, graphs = figures[kind]["plain"], figures[kind]["graphs"]
        figures[kind]["times_as_long"] = plain["jobs_per_second"] / graphs["jobs_per_second"]
        figures[kind]["times_the_cpu"] = graphs["cpu_us"] / plain["cpu_us"]
    conclude(**figures)


if __name__ == "__main__":
    main()
