"""A worker with many slots works, and keeps its lease, while its children are still starting."""

from __future__ import annotations

import time

import psutil
import pytest

from long_runs import IS_LONG
from system.witness import runs_in
from system.yard import PATIENCE, QUICK_LEASE, Process, Yard, is_watchdog, until

SLOTS = 60 if IS_LONG else 16
LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
HEALTH = {"dispatcher__workers__ping_interval": 1000}


def children_of(worker: Process) -> int:
    children = psutil.Process(worker.pid).children(recursive=True)
    return sum(not is_watchdog(child.pid) for child in children)


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_jobs_are_done_while_children_start_and_every_slot_is_used_in_the_end(
    yard: Yard, protocol: str
) -> None:
    station = yard.dispatcher(**LEASE, **HEALTH)
    client = yard.client(station)
    start = yard.worker if protocol == "zmq" else yard.http_worker
    worker = start(station, slots=SLOTS)

    first = client.submit("work", 1, 0.01)
    assert first.result(PATIENCE) == 1
    assert children_of(worker) < SLOTS, "the first job was done before all children had started"

    jobs = [client.submit("polite") for _ in range(SLOTS)]
    states = set()

    def all_run() -> bool:
        states.update(w.state for w in client.workers())
        time.sleep(0.1)
        return len(runs_in(yard.witness)) == 1 + SLOTS

    until(all_run, within=3 * PATIENCE, what="a run in each slot")
    assert states == {"alive"}
    assert worker.logged(action="self_destruct") == []
    assert all(client.job(job.id).losses == 0 for job in jobs)
