"""Huey: queue and results in SQLite with fsync, two worker processes, polling every 10 ms."""

from __future__ import annotations

import os

from huey import SqliteHuey

from bench.peer_timing import time_peer

huey = SqliteHuey("peer", filename=os.environ["BENCH_PEER_AT"], fsync=True)


@huey.task(name="echo")
def echo(number: int) -> int:
    return number


def many(jobs: int) -> list[int]:
    results = [echo(number) for number in range(jobs)]
    return [result.get(blocking=True, timeout=200, max_delay=0.01) for result in results]


def one(number: int) -> int:
    return echo(number).get(blocking=True, timeout=60, max_delay=0.001)


if __name__ == "__main__":
    # Huey names a task after its module, which here must be the one that the consumer knows.
    from bench import peer_huey

    time_peer(peer_huey.many, peer_huey.one)
