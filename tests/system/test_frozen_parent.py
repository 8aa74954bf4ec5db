"""Only a worker's parent is frozen: its children stop in time, before their jobs run elsewhere."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from shunter.model.job import Status
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, Process, Yard, is_watchdog, until

LEASE = {
    "lease__heartbeat": 0.3,
    "lease__worker_gives_up": 2.0,
    "lease__kill_within": 0.5,
    "lease__dispatcher_takes_over": 3.0,
}
HEALTH = {
    "dispatcher__workers__ping_interval": 2000,
    "dispatcher__workers__max_retries": 3,
    "dispatcher__workers__dead_worker_ping_interval": 500,
}


def children_of(worker: Process) -> list[int]:
    children = psutil.Process(worker.pid).children(recursive=True)
    return [child.pid for child in children if not is_watchdog(child.pid)]


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_no_two_runs_overlap_though_the_children_of_a_frozen_parent_run_on(
    yard: Yard, protocol: str
) -> None:
    station = yard.dispatcher(**LEASE, **(HEALTH if protocol == "http" else {}))
    start = yard.worker if protocol == "zmq" else yard.http_worker
    first = start(station)
    client = yard.client(station)
    jobs = [client.submit("attempt_of", 60.0, later=0.1) for _ in range(2)]
    until(lambda: set(runs_in(yard.witness)) == {job.id for job in jobs})
    children = children_of(first)

    os.kill(first.pid, signal.SIGSTOP)
    start(station)

    assert all(job.result(PATIENCE) > 1 for job in jobs)
    assert overlaps(yard.witness) == []
    assert not any(run[0].has_ended for run in runs_in(yard.witness).values())

    os.kill(first.pid, signal.SIGCONT)
    until(lambda: len(set(children_of(first)) - set(children)) == 2, what="new children")
    until(lambda: sorted(worker.state for worker in client.workers()) == ["alive", "alive"])
    more = [client.submit("work", number, 0.5) for number in range(4)]
    assert [job.result(PATIENCE) for job in more] == [0, 1, 2, 3]
    assert all(client.job(job.id).status is Status.COMPLETED for job in jobs)


def test_the_idle_children_of_a_frozen_parent_stay(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    worker = yard.worker(station)
    client = yard.client(station)
    assert client.submit("add", 1, 2).result(PATIENCE) == 3
    until(lambda: len(children_of(worker)) == 2)
    children = children_of(worker)
    time.sleep(0.5)  # until the parent has seen that there is nothing to stop

    os.kill(worker.pid, signal.SIGSTOP)
    until(lambda: [w.state for w in client.workers()] == ["dead"])
    os.kill(worker.pid, signal.SIGCONT)

    until(lambda: [w.state for w in client.workers()] == ["alive"])
    assert children_of(worker) == children
