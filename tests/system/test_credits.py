"""A worker with several dispatchers never has more jobs than its window, whoever gave them.

What counts is the store: a job is with a worker from the write that starts it until the write
that ends it. The store is sampled all the time; and since every run's start and end is written
down, the runs can be laid side by side afterwards.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shunter.client import Client, SubmittedJob
from shunter.model.job import Status
from system.relay import Relay
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, QUICK_LEASE, Station, Yard, until

SLOTS = 2
SECONDS = 0.3


class Sampler:
    """Asks stores, again and again, how many jobs are in progress on each worker."""

    def __init__(self, *stations: Station) -> None:
        self.samples = 0
        self.most = 0
        self._paths = {str(s.settings["store.url"]).removeprefix("sqlite:///") for s in stations}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        stores = [sqlite3.connect(f"file:{path}?mode=ro", uri=True) for path in self._paths]
        question = "SELECT count(*) FROM jobs WHERE status = 'i' AND worker_id LIKE 'w-%'"
        while not self._is_over.wait(0.004):
            found = sum(store.execute(question).fetchone()[0] for store in stores)
            self.most = max(self.most, found)
            self.samples += 1
        for store in stores:
            store.close()


@pytest.fixture
def relay_to() -> Iterator[Callable[[Station], Relay]]:
    made: list[Relay] = []

    def to(station: Station) -> Relay:
        made.append(Relay(station.backend))
        return made[-1]

    yield to
    for relay in made:
        relay.close()


def quick(yard: Yard, name: str, **settings: object) -> Station:
    lease = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
    return yard.dispatcher(name, **lease, **settings)


def pair(yard: Yard) -> tuple[Station, Station]:
    one = quick(yard, "one")
    return one, quick(yard, "two", store__url=one.settings["store.url"])


def submit_to_both(
    yard: Yard, one: Station, two: Station, number: int
) -> tuple[Client, list[SubmittedJob]]:
    """Submit to two dispatchers at once, from two threads that wait for each other."""
    clients = [yard.client(one), yard.client(two)]
    until(lambda: all(client.workers() for client in clients))
    start, jobs = threading.Barrier(2), list[SubmittedJob]()

    def submit(client: Client, first: int) -> None:
        calls = [(first + n, SECONDS) for n in range(number)]
        start.wait(PATIENCE)
        jobs.extend(client.submit_many("work", calls))

    threads = [
        threading.Thread(target=submit, args=(client, place * number))
        for place, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(jobs) == 2 * number
    return clients[1], jobs


def check_never_over(
    yard: Yard, sampler: Sampler, client: Client, jobs: list[SubmittedJob]
) -> float:
    """Check the samples; and lay all runs of these jobs side by side, as the records have them.

    Return how many slots were in use, on average.

    A dispatcher that is killed between its write and its message leaves a run that its worker
    never hears of. Such a run is none; that the samples then may have seen it can't be helped.
    """
    witnessed = {
        (run.job_id, run.attempt) for runs in runs_in(yard.witness).values() for run in runs
    }
    moments: list[tuple[float, int]] = []
    stillborn = 0
    for job in (client.job(job.id) for job in jobs):
        assert job.status is Status.COMPLETED
        runs = [(past.attempt, past.started, past.ended) for past in job.history]
        runs.append((job.attempt, job.execution.started, job.execution.ended or 0.0))
        for attempt, started, ended in runs:
            if (job.id, attempt) in witnessed:
                assert started is not None
                moments += [(started, 1), (ended, -1)]
            else:
                stillborn += 1
    here = most = 0
    for _, step in sorted(moments):
        here += step
        most = max(most, here)
    assert most == SLOTS
    assert SLOTS <= sampler.most <= SLOTS + stillborn
    times = [moment for moment, _ in moments]
    return -sum(moment * step for moment, step in moments) / (max(times) - min(times))


def test_two_dispatchers_that_choose_at_once_never_give_a_worker_more_than_it_has_slots(
    yard: Yard,
) -> None:
    one, two = pair(yard)
    yard.worker(one, two, slots=SLOTS)

    with Sampler(one) as sampler:
        client, jobs = submit_to_both(yard, one, two, 20)
        assert sorted(job.result(PATIENCE) for job in jobs) == list(range(40))

    assert sampler.samples > 200
    assert sampler.most == SLOTS
    in_use = check_never_over(yard, sampler, client, jobs)
    assert in_use > 1.1, "neither dispatcher leaves the other's share of the worker unused"
    assert overlaps(yard.witness) == []


def test_a_worker_never_has_too_much_though_one_of_its_dispatchers_is_killed(yard: Yard) -> None:
    one, two = pair(yard)
    yard.worker(one, two, slots=SLOTS)

    with Sampler(one) as sampler:
        client, jobs = submit_to_both(yard, one, two, 20)
        until(lambda: sum(run[-1].has_ended for run in runs_in(yard.witness).values()) >= 15)
        one.process.kill()
        until(lambda: _are_done(client), what="all jobs are done")

    check_never_over(yard, sampler, client, jobs)
    assert overlaps(yard.witness) == []


def test_a_worker_never_has_too_much_though_a_dispatcher_comes_and_goes(yard: Yard) -> None:
    one, two = pair(yard)
    yard.worker(one, two, slots=SLOTS)

    with Sampler(one) as sampler:
        client, jobs = submit_to_both(yard, one, two, 20)
        for done in (6, 12, 18, 24):
            until(lambda done=done: len(runs_in(yard.witness)) >= done)
            one.restart()
        until(lambda: _are_done(client), what="all jobs are done")

    check_never_over(yard, sampler, client, jobs)


def test_a_worker_of_one_dispatcher_that_is_restarted_keeps_to_its_slots(yard: Yard) -> None:
    station = quick(yard, "one")
    yard.worker(station, slots=SLOTS)
    client = yard.client(station)

    with Sampler(station) as sampler:
        jobs = client.submit_many("work", [(n, SECONDS) for n in range(30)])
        for done in (6, 12, 18):
            until(lambda done=done: len(runs_in(yard.witness)) >= done)
            station.restart()
        assert sorted(job.result(PATIENCE) for job in jobs) == list(range(30))

    check_never_over(yard, sampler, client, jobs)


def test_a_cut_that_is_mended_gives_a_worker_no_more_than_its_slots(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    one, two = pair(yard)
    relay = relay_to(one)
    backends = [relay.address, two.backend]
    yard.worker(one, slots=SLOTS, backends=backends, worker__broker_timeout=0.2)
    client, _ = submit_to_both(yard, one, two, 20)

    for done in (8, 20):
        until(lambda done=done: len(runs_in(yard.witness)) >= done)
        relay.cut()
        time.sleep(1.0)  # long enough for the worker to open a new socket
        relay.mend()

    until(lambda: _are_done(client), what="all jobs are done")
    assert overlaps(yard.witness) == []


def test_a_job_that_a_killed_dispatcher_had_started_but_not_sent_is_found_by_another(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    one, two = pair(yard)
    relay = relay_to(one)
    yard.worker(one, slots=SLOTS, backends=[relay.address, two.backend])
    client = yard.client(one)
    until(lambda: client.workers())
    assert client.submit("attempt_of", 0.0).result(PATIENCE) == 1
    time.sleep(1.0)  # for each of them to have its slot

    relay.cut(only="back")
    job = client.submit("attempt_of", 0.1)
    until(lambda: job.status() is Status.IN_PROGRESS, what="it was sent into the cut")
    one.process.kill()

    left = yard.client(two)
    until(lambda: left.job(job.id).status is Status.COMPLETED)
    assert left.job(job.id).attempt == 2
    assert len(runs_in(yard.witness)[job.id]) == 1


def test_the_only_busy_one_of_several_dispatchers_gets_all_slots(yard: Yard) -> None:
    one, two = quick(yard, "one"), quick(yard, "two")
    yard.worker(one, two, slots=SLOTS)
    client = yard.client(one)
    until(lambda: client.workers() and yard.client(two).workers())

    with Sampler(one, two) as sampler:
        jobs = client.submit_many("work", [(n, SECONDS) for n in range(30)])
        assert sorted(job.result(PATIENCE) for job in jobs) == list(range(30))

    assert sampler.most == SLOTS
    in_use = check_never_over(yard, sampler, client, jobs)
    assert in_use > 1.1, "the idle store's dispatcher is tried now and then, and keeps no slot"


def test_more_dispatchers_than_slots_all_get_their_jobs_done(yard: Yard) -> None:
    stations = [quick(yard, name) for name in ("one", "two", "three")]
    yard.worker(*stations, slots=1)
    clients = [yard.client(station) for station in stations]
    until(lambda: all(client.workers() for client in clients))

    with Sampler(*stations) as sampler:
        jobs = [client.submit_many("work", [(n, 0.1) for n in range(15)]) for client in clients]
        for mine in jobs:
            assert sorted(job.result(PATIENCE) for job in mine) == list(range(15))

    assert sampler.most == 1


def _are_done(client: Client) -> bool:
    return {status for _, status, _ in client.standing().backlog} == {Status.COMPLETED}
