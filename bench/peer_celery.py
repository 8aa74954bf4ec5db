"""Celery: broker and results in Redis, two worker processes."""

from __future__ import annotations

import os

from celery import Celery, group

from bench.peer_timing import time_peer

redis = os.environ["BENCH_PEER_AT"]
app = Celery("peer", broker=redis, backend=redis)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task(name="echo")
def echo(number: int) -> int:
    return number


def many(jobs: int) -> list[int]:
    return group(echo.s(number) for number in range(jobs))().get(timeout=200)


def one(number: int) -> int:
    return echo.delay(number).get(timeout=60, interval=0.001)


if __name__ == "__main__":
    time_peer(many, one)
