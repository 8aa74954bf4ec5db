"""A worker with many slots works, and keeps its lease, while its children are still starting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from long_runs import IS_LONG
from system.yard import PATIENCE, QUICK_LEASE, Yard

APP = f"{Path(__file__).parent / 'gated_app.py'}:app"
SLOTS = 60 if IS_LONG else 8
LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
HEALTH = {"dispatcher__workers__ping_interval": 1000}


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_jobs_are_done_while_children_start_and_every_slot_is_used_in_the_end(
    yard: Yard, protocol: str
) -> None:
    station = yard.dispatcher(**LEASE, **HEALTH)
    client = yard.client(station)
    start = yard.worker if protocol == "zmq" else yard.http_worker
    worker = start(station, slots=SLOTS, app=APP)
    shut_until = time.monotonic() + 1.5 * QUICK_LEASE["lease.dispatcher_takes_over"]
    pids, states = set(), set()

    while time.monotonic() < shut_until:  # a lease that is not renewed is lost by then
        pids.add(client.submit("pid").result(PATIENCE))
        states.update(each.state for each in client.workers())
        time.sleep(0.1)
    assert len(pids) == 1, "one child does jobs while others start"

    (yard.folder / "open").touch()
    jobs = [client.submit("meet", SLOTS) for _ in range(SLOTS)]
    assert len({job.result(3 * PATIENCE) for job in jobs}) == SLOTS
    states.update(each.state for each in client.workers())
    assert states <= {"untried", "alive"}
    assert worker.logged(action="self_destruct") == []
    assert all(client.job(job.id).losses == 0 for job in jobs)
