"""Times a peer. Runs in the peers' own environment, so it imports nothing of ours."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def time_peer(many: Callable[[int], list[int]], one: Callable[[int], int]) -> None:
    """Print the peer's figures. `many` does so many jobs at once, `one` a single one."""
    jobs, trips = (int(argument) for argument in sys.argv[1:3])
    assert many(100) == list(range(100))
    began = time.perf_counter()
    assert many(jobs) == list(range(jobs))
    took = time.perf_counter() - began
    seconds = []
    for number in range(trips):
        sent = time.perf_counter()
        assert one(number) == number
        seconds.append(time.perf_counter() - sent)
    seconds.sort()
    figures = {
        "jobs_per_second": jobs / took,
        "p50_ms": seconds[len(seconds) // 2] * 1000,
        "p99_ms": seconds[int(len(seconds) * 0.99)] * 1000,
    }
    told(figures)


def told(figures: dict[str, float]) -> None:
    """Print what was measured, for the parent."""
    print(json.dumps({"figures": figures}), flush=True)
