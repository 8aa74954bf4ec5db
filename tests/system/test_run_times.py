"""A job's times are its handler's, not those of its journey."""

from __future__ import annotations

import pytest

from shunter.model.job import Job
from system.witness import runs_in
from system.yard import PATIENCE, Yard, until

SLOTS = 2
MANY = 300


def lasted(job: Job) -> float:
    run = job.execution
    assert run.sent is not None
    assert run.started is not None
    assert run.ended is not None
    assert job.created <= run.started <= run.ended
    return run.ended - run.started


@pytest.mark.parametrize("protocol", ["zmq", "http"])
def test_a_worker_never_seems_to_run_more_jobs_than_it_has_slots(yard: Yard, protocol: str) -> None:
    station = yard.dispatcher()
    client = yard.client(station)
    (yard.worker if protocol == "zmq" else yard.http_worker)(station, slots=SLOTS)
    client.submit("add", 1, 2).result(PATIENCE)

    quick = client.submit_many("add", [(n, n) for n in range(MANY)])
    slow = client.submit("work", 1, 0.3)
    for job in (*quick, slow):
        job.result(PATIENCE)

    jobs = client.jobs(job_ids=tuple(job.id for job in quick))
    assert len(jobs) == MANY
    begun = min(job.execution.started or 0.0 for job in jobs)
    span = max(job.execution.ended or 0.0 for job in jobs) - begun
    assert sum(map(lasted, jobs)) <= SLOTS * span
    ((run,),) = runs_in(yard.witness).values()
    assert lasted(client.job(slow.id)) >= run.last - run.first - 0.001


def test_a_running_job_says_when_it_began_as_soon_as_it_tells_its_progress(yard: Yard) -> None:
    station = yard.dispatcher()
    client = yard.client(station)
    yard.worker(station, slots=SLOTS)

    silent, telling = client.submit("polite"), client.submit("advancing", 3)
    until(lambda: client.job(telling.id).progress)
    until(lambda: client.job(silent.id).execution.sent)

    assert client.job(silent.id).execution.started is None
    assert client.job(telling.id).execution.started is not None
    client.cancel([silent.id, telling.id])
    until(lambda: all(client.job(job.id).status.is_final for job in (silent, telling)))
    assert lasted(client.job(silent.id)) >= 0.0
