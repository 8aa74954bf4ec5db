"""Workers that are cut off or stopped: leases, self-destruction and the fence."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from shunter.model.job import Status
from system.relay import Relay
from system.witness import overlaps, runs_in
from system.yard import PATIENCE, QUICK_LEASE, Station, Yard, is_alive, until

TAKES_OVER = QUICK_LEASE["lease.dispatcher_takes_over"]
LONG = 60.0
"""How long a run takes that must not come to its end."""


@pytest.fixture
def relay_to() -> Iterator[Callable[[Station], Relay]]:
    made: list[Relay] = []

    def to(station: Station) -> Relay:
        made.append(Relay(station.backend))
        return made[-1]

    yield to
    for relay in made:
        relay.close()


def quick(yard: Yard, name: str = "dispatcher", **settings: object) -> Station:
    lease = {key.replace(".", "__"): value for key, value in QUICK_LEASE.items()}
    return yard.dispatcher(name, **lease, **settings)


def test_a_worker_stopped_beyond_its_lease_does_not_get_its_late_result_accepted(
    yard: Yard,
) -> None:
    station = quick(yard)
    frozen = yard.worker(station, slots=1)
    client = yard.client(station)
    job = client.submit("attempt_of", 1.0)
    until(lambda: job.id in runs_in(yard.witness))

    frozen.signal(signal.SIGSTOP)
    other = yard.worker(station, slots=1)
    until(lambda: client.job(job.id).attempt == 2, what="the job was taken over")
    frozen.signal(signal.SIGCONT)

    assert job.result(PATIENCE) == 2
    story = client.job(job.id)
    assert (story.status, story.attempt, story.losses) == (Status.COMPLETED, 2, 1)
    assert "lease" in story.history[0].message
    assert frozen.is_alive
    assert other.is_alive
    again = [client.submit("attempt_of", 0.1) for _ in range(4)]
    assert [job.result(PATIENCE) for job in again] == [1, 1, 1, 1]
    until(lambda: [w.state for w in client.workers()] == ["alive", "alive"])


def test_a_worker_whose_dispatcher_is_stopped_stops_its_jobs_by_itself(yard: Yard) -> None:
    station = quick(yard)
    worker = yard.worker(station, slots=1)
    client = yard.client(station)
    job = client.submit("attempt_of", LONG, later=0.1)
    [run] = until(lambda: runs_in(yard.witness).get(job.id))

    station.process.signal(signal.SIGSTOP)
    until(lambda: worker.logged(action="self_destruct"))
    until(lambda: not is_alive(run.pid), what="the end of the child that ran the job")
    station.process.signal(signal.SIGCONT)

    assert worker.logged(action="self_destruct")[0]["incarnation"] == 2
    assert job.result(PATIENCE) >= 2  # on a busy machine a quick lease may lapse again
    assert overlaps(yard.witness) == []


def test_a_worker_that_is_cut_off_stops_before_another_starts_its_jobs(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    station = quick(yard)
    relay = relay_to(station)
    cut_off = yard.worker(station, slots=2, backends=[relay.address])
    client = yard.client(station)
    jobs = [client.submit("attempt_of", LONG, later=0.1) for _ in range(2)]
    until(lambda: len(runs_in(yard.witness)) == 2)
    yard.worker(station, slots=2)
    until(lambda: len(client.workers()) == 2)

    relay.cut()
    assert [job.result(PATIENCE) for job in jobs] == [2, 2]
    relay.mend()

    assert not any(runs[0].has_ended for runs in runs_in(yard.witness).values())
    assert overlaps(yard.witness) == []
    assert all(client.job(job.id).losses == 1 for job in jobs)
    until(lambda: [w.state for w in client.workers()] == ["alive", "alive"], what="it came back")
    assert max(w.incarnation for w in client.workers()) == 2
    assert cut_off.is_alive


def test_a_worker_that_is_cut_off_for_less_than_its_lease_keeps_its_jobs(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    station = yard.dispatcher()
    relay = relay_to(station)
    worker = yard.worker(station, backends=[relay.address])
    client = yard.client(station)
    job = client.submit("attempt_of", 2.5)
    until(lambda: job.id in runs_in(yard.witness))

    relay.cut()
    time.sleep(1.5)  # the cut itself
    relay.mend()

    assert job.result(PATIENCE) == 1
    assert worker.logged(action="self_destruct") == []


@pytest.mark.parametrize("broker_timeout", [0.3, 30.0], ids=["reopens", "does-not-reopen"])
def test_jobs_held_up_on_their_way_to_a_worker_are_not_started_after_another_has_them(
    yard: Yard, relay_to: Callable[[Station], Relay], broker_timeout: float
) -> None:
    station = quick(yard)
    relay = relay_to(station)
    yard.worker(station, slots=1, backends=[relay.address], worker__broker_timeout=broker_timeout)
    client = yard.client(station)
    until(lambda: [w.state for w in client.workers()] == ["alive"])

    relay.cut()
    job = client.submit("attempt_of", 3.0)
    until(lambda: job.status() is Status.IN_PROGRESS, what="it was sent into the cut")
    yard.worker(station, slots=1)
    until(lambda: job.id in runs_in(yard.witness), what="the other worker has it")
    relay.mend()

    assert job.result(PATIENCE) == 2
    assert [run.attempt for run in runs_in(yard.witness)[job.id]] == [2]


def test_a_worker_cut_off_from_one_of_two_dispatchers_on_one_store_keeps_its_jobs(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    one = quick(yard, "one")
    two = quick(yard, "two", store__url=one.settings["store.url"])
    relay = relay_to(one)
    yard.worker(one, slots=1, backends=[relay.address, two.backend])
    client = yard.client(one)
    until(lambda: [w.state for w in client.workers()] == ["alive"])
    job = client.submit("attempt_of", 1.5 * TAKES_OVER)
    until(lambda: job.id in runs_in(yard.witness))

    relay.cut()

    assert job.result(PATIENCE) == 1
    assert len(runs_in(yard.witness)[job.id]) == 1


def test_a_result_sent_into_a_cut_is_sent_again_by_another_dispatcher_on_the_store(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    one = quick(yard, "one")
    two = quick(yard, "two", store__url=one.settings["store.url"])
    relay = relay_to(one)
    yard.worker(one, slots=1, backends=[relay.address, two.backend])
    client = yard.client(one)
    until(lambda: [w.state for w in client.workers()] == ["alive"])
    job = client.submit("attempt_of", 0.7)
    until(lambda: job.id in runs_in(yard.witness))

    relay.cut()

    assert job.result(PATIENCE) == 1


def test_a_worker_cut_off_from_the_dispatcher_on_one_of_two_stores_gives_its_jobs_up_in_time(
    yard: Yard, relay_to: Callable[[Station], Relay]
) -> None:
    one, two = quick(yard, "one"), quick(yard, "two")
    relay = relay_to(one)
    yard.worker(one, slots=2, backends=[relay.address, two.backend])
    client = yard.client(one)
    until(lambda: [w.state for w in client.workers()] == ["alive"])
    job = client.submit("attempt_of", LONG, later=0.1)
    until(lambda: job.id in runs_in(yard.witness))
    yard.worker(one, slots=2)
    until(lambda: len(client.workers()) == 2)

    relay.cut()

    until(lambda: len(runs_in(yard.witness)[job.id]) == 2, what="the other worker has it")
    assert job.result(PATIENCE) == 2
    assert overlaps(yard.witness) == []


def test_two_dispatchers_on_two_stores_share_a_worker(yard: Yard) -> None:
    one, two = quick(yard, "one"), quick(yard, "two")
    yard.worker(one, two)

    for station in (one, two):
        jobs = yard.client(station).submit_many("add", [(n, n) for n in range(200)])
        assert [job.result(PATIENCE) for job in jobs] == [2 * n for n in range(200)]


def test_a_long_job_is_left_alone_by_a_dispatcher_on_another_store(yard: Yard) -> None:
    one, two = quick(yard, "one"), quick(yard, "two")
    yard.worker(one, two)
    clients = [yard.client(one), yard.client(two)]
    until(lambda: all(client.workers() for client in clients))

    jobs = [client.submit("attempt_of", 1.2 * TAKES_OVER) for client in clients]

    assert [job.wait(PATIENCE).status.word for job in jobs] == ["completed", "completed"]
    assert [job.result(PATIENCE) for job in jobs] == [1, 1]


def test_two_dispatchers_on_one_store_share_the_queue(yard: Yard) -> None:
    one = quick(yard, "one")
    two = quick(yard, "two", store__url=one.settings["store.url"])
    yard.worker(two)
    client = yard.client(one)

    jobs = client.submit_many("work", [(n, 0.0) for n in range(300)])

    ended = list(client.as_completed(jobs, timeout=PATIENCE))
    assert sorted(job.result() for job in ended) == list(range(300))
    assert all(len(runs) == 1 for runs in runs_in(yard.witness).values())


def test_results_from_another_dispatcher_do_not_cost_a_second_each(yard: Yard) -> None:
    one = quick(yard, "one")
    two = quick(yard, "two", store__url=one.settings["store.url"])
    yard.worker(two)
    jobs = yard.client(one).submit_many("work", [(n, 0.0) for n in range(60)])
    until(lambda: len(runs_in(yard.witness)) == 60)

    began = time.monotonic()
    assert [job.result(PATIENCE) for job in jobs] == list(range(60))

    assert time.monotonic() - began < 25.0


def test_another_dispatcher_on_the_store_takes_over_when_one_is_killed(yard: Yard) -> None:
    one = quick(yard, "one")
    two = quick(yard, "two", store__url=one.settings["store.url"])
    yard.worker(one, two)
    client = yard.client(one, two)
    jobs = client.submit_many("work", [(n, 0.02) for n in range(200)])
    until(lambda: len(runs_in(yard.witness)) >= 40)

    one.process.kill()

    ended = list(client.as_completed(jobs, timeout=PATIENCE))
    assert sorted(job.result() for job in ended) == list(range(200))
    assert overlaps(yard.witness) == []
