"""Procrastinate: the queue in PostgreSQL with fsync, two worker processes.

It keeps no results, so a job's end is what is waited for; looking for it takes a query.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

import psycopg
from procrastinate import App, PsycopgConnector

from bench.peer_timing import time_peer

MANY_SECONDS, ONE_SECONDS = 0.05, 0.001
"""How often to look whether all jobs, and whether one, have ended."""

logging.getLogger("procrastinate").setLevel(logging.ERROR)
address = os.environ["BENCH_PEER_AT"]
app = App(connector=PsycopgConnector(conninfo=address))


@app.task(name="echo")
async def echo(number: int) -> int:
    return number


def many(jobs: int) -> list[int]:
    ids = echo.batch_defer(*({"number": number} for number in range(jobs)))
    _wait(lambda: _ended(ids[0], ids[-1]) == jobs, MANY_SECONDS)
    return list(range(jobs))


def one(number: int) -> int:
    job = echo.defer(number=number)
    _wait(lambda: _ended(job, job) == 1, ONE_SECONDS)
    return number


def _ended(first: int, last: int) -> int:
    query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
    found = database.execute(f"{query} AND id BETWEEN %s AND %s", (first, last)).fetchone()
    assert found is not None
    return int(found[0])


def _wait(is_over: Callable[[], bool], pause: float) -> None:
    deadline = time.monotonic() + 180
    while not is_over():
        assert time.monotonic() < deadline, "jobs were not done in time"
        time.sleep(pause)


if __name__ == "__main__":
    with app.open(), psycopg.connect(address, autocommit=True) as database:
        time_peer(many, one)
