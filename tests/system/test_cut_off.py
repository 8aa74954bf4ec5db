"""Workers behind a cable that is cut: they stop their jobs before anybody else may start them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shunter.client import SubmittedJob
from system.elsewhere import Elsewhere, elsewhere
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, QUICK_LEASE, Yard, free_port, until

LEASE = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
HEALTH = {
    "dispatcher__workers__ping_interval": 1000,
    "dispatcher__workers__max_retries": 7,
    "lease__kill_within": 0.5,
    "lease__worker_gives_up": 5.0,
    "dispatcher__workers__dead_worker_ping_interval": 500,
    "dispatcher__jobs__job_verification_interval": 1000,
}


@pytest.fixture
def far() -> Iterator[Elsewhere]:
    with elsewhere() as host:
        yield host


def under_way(yard: Yard, jobs: list[SubmittedJob]) -> bool:
    return all(job.id in runs_in(yard.witness) for job in jobs)


def test_a_worker_that_is_cut_off_stops_its_jobs_before_they_run_elsewhere(
    yard: Yard, far: Elsewhere
) -> None:
    cable = far.cables[0]
    backend = f"tcp://{cable.here}:{free_port()}"
    station = yard.dispatcher(zmq__backend=backend, zmq__insecure=True, **LEASE)
    yard.worker(station, backends=[backend], inside=far.inside)
    client = yard.client(station)
    jobs = [client.submit("attempt_of", 60.0, later=0.1) for _ in range(2)]
    until(lambda: under_way(yard, jobs))

    cable.cut()
    yard.worker(station, backends=[backend])

    assert [job.result(PATIENCE) for job in jobs] == [2, 2]
    assert overlaps(yard.witness) == []
    (first, _), *_ = runs_in(yard.witness).values()
    assert not first.has_ended

    cable.mend()
    until(lambda: sorted(w.state for w in client.workers()) == ["alive", "alive"])


def test_a_worker_that_still_reaches_one_dispatcher_keeps_its_jobs(
    yard: Yard, far: Elsewhere
) -> None:
    store = f"sqlite:///{yard.folder}/shared.db"
    backends = [f"tcp://{cable.here}:{free_port()}" for cable in far.cables]
    one, two = (
        yard.dispatcher(
            f"d-{n}", store__url=store, zmq__backend=backend, zmq__insecure=True, **LEASE
        )
        for n, backend in enumerate(backends)
    )
    worker = yard.worker(one, two, backends=backends, inside=far.inside)
    client = yard.client(one, two)
    jobs = [client.submit("attempt_of", 5.0) for _ in range(2)]
    until(lambda: under_way(yard, jobs))

    far.cables[0].cut()

    assert [job.result(PATIENCE) for job in jobs] == [1, 1]
    assert worker.logged(action="self_destruct") == []


def test_an_http_worker_that_is_cut_off_stops_its_jobs_before_they_run_elsewhere(
    yard: Yard, far: Elsewhere
) -> None:
    cable = far.cables[0]
    station = yard.dispatcher(
        http__host=cable.here,
        http__insecure=True,
        dispatcher__workers__allowed_hosts=[cable.here, cable.there],
        **HEALTH,
    )
    via = [f"http://{cable.here}:{station.http_port}"]
    yard.http_worker(
        station, host=cable.there, via=via, inside=far.inside, worker__http__insecure=True
    )
    client = yard.client(station)
    jobs = [client.submit("attempt_of", 60.0, later=0.1) for _ in range(2)]
    until(lambda: under_way(yard, jobs))

    cable.cut()
    time.sleep(0.5)
    yard.http_worker(station, host=cable.here, via=via, worker__http__insecure=True)

    assert [job.result(PATIENCE) for job in jobs] == [2, 2]
    assert overlaps(yard.witness) == []
    (first, _), *_ = runs_in(yard.witness).values()
    assert not first.has_ended

    cable.mend()
    until(lambda: sorted(w.state for w in client.workers()) == ["alive", "alive"])
