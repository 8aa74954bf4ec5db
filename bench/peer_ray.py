"""Ray: everything in memory, two worker processes."""

from __future__ import annotations

import ray

from bench.peer_timing import time_peer


@ray.remote(num_cpus=1)
def echo(number: int) -> int:
    return number


def many(jobs: int) -> list[int]:
    return ray.get([echo.remote(number) for number in range(jobs)])


def one(number: int) -> int:
    return ray.get(echo.remote(number))


if __name__ == "__main__":
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200_000_000,
    )
    time_peer(many, one)
