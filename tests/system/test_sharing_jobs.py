"""Many jobs in one process of a worker, whatever happens to it: each ends once."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from shunter.model.job import Job, Status
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, QUICK_LEASE, Process, Yard, is_watchdog, until

APP = f"{Path(__file__).parent / 'sharing_app.py'}:app"
ALL_SHARE = f"{Path(__file__).parent / 'all_sharing_app.py'}:app"
LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}


def children_of(worker: Process) -> list[psutil.Process]:
    children = psutil.Process(worker.pid).children()
    return [child for child in children if not is_watchdog(child.pid)]


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_more_jobs_run_at_a_time_than_there_are_slots(yard: Yard, protocol: str) -> None:
    station = yard.dispatcher()
    client = yard.client(station)
    start = yard.worker if protocol == "zmq" else yard.http_worker
    start(station, slots=2, app=APP, worker__kill_grace_seconds=0.3)

    jobs = client.submit_many("nap", [(n, 0.5) for n in range(20)])
    last = client.submit("alone", 99)

    assert [job.result(PATIENCE) for job in jobs] == list(range(20))
    assert last.result(PATIENCE) == 99
    times = [client.job(job.id).execution for job in jobs]
    moments = sorted([(t.started, 1) for t in times] + [(t.ended, -1) for t in times])  # type: ignore[type-var]
    here = most = 0
    for _, step in moments:
        here += step
        most = max(most, here)
    least = 2 if protocol == "http" else 10
    assert most >= least, "an app with a type that wants to be alone has room for that over HTTP"


@pytest.mark.parametrize(("protocol", "outcome"), [("zmq", "returned"), ("http", "lost")])
def test_neighbours_of_a_run_that_had_to_be_killed_run_again(
    yard: Yard, protocol: str, outcome: str
) -> None:
    station = yard.dispatcher()
    client = yard.client(station)
    start = yard.worker if protocol == "zmq" else yard.http_worker
    start(station, slots=1, app=ALL_SHARE, worker__kill_grace_seconds=0.3)

    deaf = client.submit("deaf")
    naps = client.submit_many("nap", [(n, 2.0) for n in range(3)])
    until(lambda: {job.id for job in (deaf, *naps)} <= runs_in(yard.witness).keys())
    client.cancel([deaf.id])

    assert [job.result(PATIENCE) for job in naps] == [0, 1, 2]
    until(lambda: client.job(deaf.id).status is Status.CANCELLED)
    for job in naps:
        record = client.job(job.id)
        # One that then waits too long for the new process is given back once more.
        assert {past.outcome for past in record.history} == {outcome}
        assert record.losses == (outcome == "lost")
        assert any(deaf.id in past.message for past in record.history)
    assert overlaps(yard.witness) == []


def test_kills_and_cancels_in_the_middle_end_each_job_once(yard: Yard) -> None:
    station = yard.dispatcher(**LEASE)
    client = yard.client(station)
    settings = {"worker__kill_grace_seconds": 0.2, "worker__max_block_seconds": 0.6}
    first = yard.worker(station, slots=2, app=APP, **settings)

    naps = client.submit_many("nap", [(n, 0.4) for n in range(60)])
    dozes = client.submit_many("doze", [(n, 0.2) for n in range(20)])
    alone = client.submit_many("alone", [(n,) for n in range(5)])
    stopped = client.submit_many("nap", [(n, 60.0) for n in range(5)])
    deaf, blocking = client.submit("deaf"), client.submit("block")
    until(lambda: {j.id for j in (deaf, blocking, *stopped)} <= runs_in(yard.witness).keys())
    client.cancel([deaf.id, *(job.id for job in stopped)])
    until(lambda: client.job(blocking.id).status.is_final)
    children_of(first)[0].kill()
    yard.worker(station, slots=2, app=APP, **settings)
    first.kill()

    every = (*naps, *dozes, *alone, *stopped, deaf, blocking)
    ended: dict[str, Job] = {}

    def all_over() -> bool:
        ended.update((job.id, client.job(job.id)) for job in every if job.id not in ended)
        for job_id, job in list(ended.items()):
            if not job.status.is_final:
                del ended[job_id]
        return len(ended) == len(every)

    until(all_over, within=3 * PATIENCE)
    assert {ended[job.id].status for job in (*naps, *dozes, *alone)} == {Status.COMPLETED}
    assert {ended[job.id].status for job in (deaf, *stopped)} == {Status.CANCELLED}
    fault = ended[blocking.id].error
    assert ended[blocking.id].status is Status.FAILED
    assert fault is not None
    assert "sharing_app.py:" in fault.message
    assert overlaps(yard.witness) == []
