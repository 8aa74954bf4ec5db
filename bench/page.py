"""What the page costs with a million jobs: each view, its weight, and twenty that are open.

A store is filled with ended, failed and waiting jobs of twenty types, on SQLite or MongoDB, and a
real dispatcher serves the page over it. Each view is asked for some times, a second apart, so that
nothing is shown that was read before. Then jobs are done as fast as they can be, in turns with
twenty pages open and without (`bench/watched.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import urllib.request
from statistics import median

import msgspec

from bench import watched
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from shunter.model.job import ErrorKind, Execution, Failure, Job, Status
from shunter.store.registry import store_for
from shunter.testing.mongod import LocalMongod

VIEWS = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs that wait": "/jobs?status=waiting",
    "jobs that failed": "/jobs?status=failed",
    "jobs of a type": "/jobs?type=type-7",
    "jobs of a rare type": "/jobs?type=rare",
    "jobs by error": "/jobs?error=no+such+text",
    "jobs until": "/jobs?until=2020-01-01",
    "jobs of a run": "/jobs?run=run-000005",
    "jobs that wait for jobs": "/jobs?status=waits+for+jobs",
    "a job": "/jobs/job-17",
    "workflows": "/workflows",
    "a run": "/workflows/run-000005",
    "flows": "/flows",
    "schedules": "/schedules",
    "limits": "/limits",
    "workers": "/workers",
    "dispatchers": "/dispatchers",
}
PARTS = re.compile(r'(?:src|href)="(/page/[^"]+)"')
BATCH = 5000
RUN_EVERY, OF_A_RUN, WAITING_EVERY = 10, 1000, 40
"""A job in ten is of a run, of which a thousand jobs in a row have one; one in forty waits."""

STATUSES = (Status.COMPLETED, Status.COMPLETED, Status.COMPLETED, Status.FAILED, Status.QUEUED)


def made(number: int, now: float) -> Job:
    """A job as it is found in an old store."""
    status, created = STATUSES[number % 5], now - 86400 + number / 100
    if number % WAITING_EVERY == 0:
        status = Status.WAITING
    is_over = status.is_final
    return Job(
        id=f"job-{number}",
        type=f"type-{number % 20}",
        created=created,
        updated=created,
        workflow="nightly" if number % RUN_EVERY == 0 else None,
        run=f"run-{number // OF_A_RUN:06d}" if number % RUN_EVERY == 0 else None,
        payload=msgspec.msgpack.encode([number, "x" * 64]),
        status=status,
        attempt=int(is_over),
        execution=Execution(worker_id="w", sent=created, started=created, ended=created + 1)
        if is_over
        else Execution(),
        error=Failure(ErrorKind.EXCEPTION, f"disk {number % 9} is full")
        if status is Status.FAILED
        else None,
    )


async def fill(url: str, count: int) -> None:
    store, now = store_for(url), time.time()
    await store.open()
    for start in range(0, count, BATCH):
        await store.insert([made(number, now) for number in range(start, start + BATCH)])
        if start % 50_000 == 0:
            say("jobs in the store", start, count)
    await store.close()


def view_times(dispatcher: Dispatcher, times: int) -> dict[str, float]:
    """Return the median milliseconds that each view takes."""
    found: dict[str, list[float]] = {name: [] for name in VIEWS}
    for number in range(times + 1):
        for name, path in VIEWS.items():
            say("views", number, times)
            time.sleep(0.9 / len(VIEWS))
            began = time.perf_counter()
            with urllib.request.urlopen(dispatcher.address + path) as answer:
                answer.read()
            if number:  # the first time templates are compiled
                found[name].append(time.perf_counter() - began)
    return {name: round(1000 * median(spans), 1) for name, spans in found.items()}


def main() -> None:
    chosen = sizes(__doc__ or "", jobs=1_000_000, times=7, rounds=3, turns=8, pages=20)
    figures: dict[str, dict[str, object]] = {}
    for name in ("sqlite", "mongodb"):
        with contextlib.ExitStack() as around:
            stage = around.enter_context(Stage())
            url = f"sqlite:///{stage.folder}/page.db"
            if name == "mongodb":
                url = around.enter_context(LocalMongod()).url("page")
            asyncio.run(fill(url, chosen.jobs))
            dispatcher = Dispatcher(stage, "page", url).ready()
            dispatcher.start_worker()
            views = view_times(dispatcher, chosen.times)
            figures[name] = {"views_ms": views, "slowest_ms": max(views.values())}
            if name == "sqlite":
                figures[name] |= costs(dispatcher, chosen.rounds, chosen.turns, chosen.pages)
                figures[name]["first_page_bytes"] = weight(dispatcher)
    conclude(jobs=chosen.jobs, pages=chosen.pages, **figures)


def costs(dispatcher: Dispatcher, rounds: int, turns: int, pages: int) -> dict[str, object]:
    """Return which part of jobs per second is left with pages open, and what a job then costs."""
    *found, of_nothing = asyncio.run(
        watched.rounds_of(dispatcher, rounds=rounds, turns=turns, seconds=1.5, pages=pages)
    )
    parts, prices = [it["part"] for it in found], [it["price"] for it in found]
    return {
        "part": median(parts),
        "parts": parts,
        "part_of_nothing": of_nothing["part"],
        "price": median(prices),
        "prices": prices,
        "rounds": found,
    }


def weight(dispatcher: Dispatcher) -> int:
    """Return the bytes of all that is loaded to show the first page, the library of plots too."""

    def content(path: str) -> bytes:
        with urllib.request.urlopen(dispatcher.address + path) as answer:
            return bytes(answer.read())

    first = content("/")
    return len(first) + sum(len(content(path)) for path in {*PARTS.findall(first.decode())})


if __name__ == "__main__":
    main()
