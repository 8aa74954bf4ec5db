"""Plain peers when workers die over their jobs, and when the dispatcher is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shunter.client import Client
from shunter.model.job import Status
from shunter.wire.pingpong import PlainWorkers
from system.plain_peers import Peer, PlainPeers, PlainWorker
from system.yard import PATIENCE, Station, Yard, until

RESEND = 3.0
SOON = 0.5

Peers = Callable[[Station], PlainPeers]


@pytest.fixture
def peers_of() -> Iterator[Peers]:
    made: list[PlainPeers] = []

    def of(station: Station) -> PlainPeers:
        made.append(PlainPeers(station.frontend, station.backend))
        return made[-1]

    yield of
    for peers in made:
        peers.close()


def test_a_job_whose_worker_is_silent_for_too_long_goes_to_another(
    yard: Yard, peers_of: Peers
) -> None:
    station = yard.dispatcher(zmq__resend_after_seconds=RESEND)
    peers = peers_of(station)
    slow, client = peers.worker(b"slow").becomes_ready(), peers.client()
    asked_at = time.monotonic()
    client.say(b"a job")
    assert slow.hears() == [b"a job"]

    quick = peers.worker(b"quick")
    assert _takes_job(quick) == b"a job"
    assert time.monotonic() - asked_at >= RESEND
    slow.say(b"too late")
    until(lambda: station.counters().get("reports_refused"), what="the late answer is refused")

    assert _answer_in_time(quick, client) == [b"in time"]
    assert client.hears_anything(SOON) is None


def test_a_late_answer_of_a_nameless_worker_is_refused_too(yard: Yard, peers_of: Peers) -> None:
    station = yard.dispatcher(zmq__resend_after_seconds=RESEND)
    peers = peers_of(station)
    slow, client = peers.worker().becomes_ready(), peers.client()
    client.say(b"a job")
    assert slow.hears() == [b"a job"]

    quick = peers.worker()
    assert _takes_job(quick) == b"a job"
    slow.say(b"too late")
    until(lambda: station.counters().get("refused_result"))

    assert _answer_in_time(quick, client) == [b"in time"]
    assert client.hears_anything(SOON) is None


def test_a_worker_taken_for_dead_is_welcome_again(yard: Yard, peers_of: Peers) -> None:
    station = yard.dispatcher(zmq__resend_after_seconds=RESEND)
    peers = peers_of(station)
    worker, client = peers.worker(b"slow").becomes_ready(), peers.client()
    client.say(b"a job")
    assert worker.hears() == [b"a job"]
    with Client(station.frontend) as observer:
        until(lambda: Status.QUEUED in [status for _, status, _ in observer.standing().backlog])

    worker.say(b"too late")
    assert _takes_job(worker) == b"a job"

    assert _answer_in_time(worker, client) == [b"in time"]


def test_waiting_plain_jobs_survive_a_kill_of_the_dispatcher(yard: Yard, peers_of: Peers) -> None:
    station = yard.dispatcher()
    peers = peers_of(station)
    client = peers.client(b"patient client")
    for number in range(100):
        client.say(b"%d" % number)
    with Client(station.frontend) as observer:
        until(lambda: sum(count for *_, count in observer.standing().backlog) == 100)

    station.restart()
    client.say(b"100")
    with Client(station.frontend) as observer:  # the new process hears from the client
        until(lambda: sum(count for *_, count in observer.standing().backlog) == 101)
    worker = peers.worker().becomes_ready()
    for number in range(100):
        assert worker.takes_job() == b"%d" % number
        worker.say(b"done %d" % number)

    assert [client.hears() for _ in range(100)] == [[b"done %d" % n] for n in range(100)]


def test_a_result_waits_for_a_client_that_comes_back_later_than_its_worker(
    yard: Yard, peers_of: Peers
) -> None:
    station = yard.dispatcher()
    peers = peers_of(station)
    client = peers.client(b"slow to return", reconnect_after=2.0)
    client.say(b"a job")
    with Client(station.frontend) as observer:
        until(lambda: sum(count for *_, count in observer.standing().backlog) == 1)

    station.restart()
    worker = peers.worker().becomes_ready()
    assert _takes_job(worker) == b"a job"
    worker.say(b"a result")

    assert client.hears() == [b"a result"]


def test_a_plain_worker_delivers_across_a_kill_of_the_dispatcher(
    yard: Yard, peers_of: Peers
) -> None:
    station = yard.dispatcher()
    peers = peers_of(station)
    worker, client = peers.worker(b"steady").becomes_ready(), peers.client(b"patient")
    client.say(b"a long job")
    assert worker.hears() == [b"a long job"]

    station.restart()
    client.say(b"another")
    with Client(station.frontend) as observer:
        until(lambda: sum(count for *_, count in observer.standing().backlog) == 2)
    worker.say(b"the long result")

    assert client.hears() == [b"the long result"]
    assert _takes_job(worker) == b"another"
    worker.say(b"the other result")
    assert client.hears() == [b"the other result"]


def test_a_nameless_workers_job_is_done_by_another_after_a_kill_of_the_dispatcher(
    yard: Yard, peers_of: Peers
) -> None:
    station = yard.dispatcher(zmq__resend_after_seconds=RESEND)
    peers = peers_of(station)
    worker, client = peers.worker().becomes_ready(), peers.client(b"patient")
    client.say(b"a job")
    assert worker.hears() == [b"a job"]

    station.restart()
    worker.say(b"nobody knows whose result this is")
    other = peers.worker()
    assert _takes_job(other) == b"a job"

    assert _answer_in_time(other, client) == [b"in time"]
    assert client.hears_anything(SOON) is None


def test_a_plain_job_over_the_limit_is_refused_with_the_reason(yard: Yard, peers_of: Peers) -> None:
    peers = peers_of(yard.dispatcher(zmq__max_message_bytes=100_000))
    worker, client = peers.worker().becomes_ready(), peers.client()

    client.say(b"x" * 150_000)
    word, reason = client.hears()
    assert word == b"ERROR"
    assert b"100,000" in reason
    assert b"max_message_bytes" in reason

    client.say(b"x" * 90_000)
    assert worker.hears() == [b"x" * 90_000]


def test_a_job_whose_plain_workers_keep_forgetting_it_fails_in_the_end(
    yard: Yard, peers_of: Peers
) -> None:
    peers = peers_of(yard.dispatcher(dispatcher__jobs__max_losses=3))
    worker, client = peers.worker().becomes_ready(), peers.client()
    client.say(b"poison")
    answer, times_given = None, 0
    while answer is None:  # a PING that was long on its way counts as well
        worker.say(b"PING")
        if worker.takes_job_if_any(0.3) is not None:
            times_given += 1
            time.sleep(2 * PlainWorkers.CROSSING)  # longer than a PING may cross a job on its way
            worker.say(b"READY")
        answer = client.hears_anything(0)

    word, reason = answer
    assert word == b"ERROR"
    assert 1 <= times_given <= 3
    assert b"max_losses" in reason
    client.say(b"wholesome")
    assert _takes_job(worker) == b"wholesome"


def test_under_load_no_client_gets_anothers_result(yard: Yard, peers_of: Peers) -> None:
    station = yard.dispatcher()
    jobs, count = 500, 4
    stop = threading.Event()
    served = [0] * 4
    are_ready = threading.Barrier(len(served) + 1)

    def serve(place: int) -> None:
        peers = PlainPeers(station.frontend, station.backend)
        worker = peers.worker().becomes_ready()
        are_ready.wait(PATIENCE)
        while not stop.is_set():
            job = worker.takes_job_if_any(0.5)
            if job is None:
                worker.say(b"PING")
            else:
                served[place] += 1
                worker.say(job[::-1])
        peers.close()

    threads = [threading.Thread(target=serve, args=(place,)) for place in range(len(served))]
    for thread in threads:
        thread.start()
    try:
        are_ready.wait(PATIENCE)
        clients = [peers_of(station).client() for _ in range(count)]
        for number in range(jobs):
            for mine, client in enumerate(clients):
                client.say(b"%d:%d" % (mine, number))
        for mine, client in enumerate(clients):
            expected = {(b"%d:%d" % (mine, number))[::-1] for number in range(jobs)}
            assert {client.hears()[0] for _ in range(jobs)} == expected
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)

    assert sum(served) == jobs * count
    assert all(served)


def _answer_in_time(worker: PlainWorker, client: Peer) -> list[bytes]:
    """Answer the job that the worker has; where that is too late, on a busy machine, once more."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        worker.say(b"in time")
        answer = client.hears_anything(2 * RESEND)
        if answer is not None:
            return answer
        assert _takes_job(worker) == b"a job"
    raise AssertionError("no answer came")


def _takes_job(worker: PlainWorker) -> bytes:
    """Say PING, as an idle worker does, until a job comes."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        worker.say(b"PING")
        job = worker.takes_job_if_any(0.3)
        if job is not None:
            return job
    raise AssertionError("no job came")
