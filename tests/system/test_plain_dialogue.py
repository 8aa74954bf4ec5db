"""The seeds' dialogue to the letter, by sockets that know nothing else."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from shunter.wire.pingpong import PlainWorkers
from system.plain_peers import PlainPeers
from system.yard import PATIENCE, Station, Yard, until

EXPIRE = 1.2
expires = pytest.mark.parametrize("expire", [EXPIRE])
"""Marks what is about silence; elsewhere a worker may be silent as long as the machine likes."""

SOON = 0.3
"""Long enough for something that must not happen to have happened."""


@pytest.fixture
def expire() -> float:
    return PATIENCE


@pytest.fixture
def station(yard: Yard, expire: float) -> Station:
    return yard.dispatcher(zmq__worker_expire_seconds=expire)


@pytest.fixture
def peers(station: Station) -> Iterator[PlainPeers]:
    made = PlainPeers(station.frontend, station.backend)
    yield made
    made.close()


def test_ready_and_ping_are_each_answered_with_pong(peers: PlainPeers) -> None:
    worker = peers.worker()

    worker.say(b"READY")
    assert worker.hears() == [b"PONG"]
    for _ in range(3):
        worker.say(b"PING")
        assert worker.hears() == [b"PONG"]


def test_a_ping_alone_puts_a_worker_into_the_ready_queue(peers: PlainPeers) -> None:
    worker, client = peers.worker(), peers.client()
    worker.say(b"PING")
    assert worker.hears() == [b"PONG"]

    client.say(b"a job")

    assert worker.hears() == [b"a job"]


def test_a_req_client_gets_the_result_of_its_job(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.req_client()

    client.say(b"what is it?")
    assert worker.hears() == [b"what is it?"]
    worker.say(b"this")

    assert client.hears() == [b"this"]


@pytest.mark.parametrize(
    ("job", "result"),
    [
        (b"", b""),
        (b"\0\xff\0READY\0", b"\0\0\xff\xfe\0"),
        (b"ERROR", b"ERROR"),
        (b"READY", b"PONG"),
        (b"PING", b"\xc0"),
        (random.Random(1).randbytes(5_000_000), random.Random(2).randbytes(7_000_000)),
    ],
    ids=["empty", "binary", "error", "ready", "ping", "megabytes"],
)
def test_jobs_and_results_travel_byte_for_byte(
    peers: PlainPeers, job: bytes, result: bytes
) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()

    client.say(job)
    assert worker.hears() == [job]
    worker.say(result)

    assert client.hears() == [result]


def test_a_worker_never_has_two_jobs_and_is_put_back_after_its_result(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    for number in range(3):
        client.say(b"job %d" % number)

    for number in range(3):
        assert worker.hears() == [b"job %d" % number]
        assert worker.hears_anything(SOON) is None
        worker.say(b"result %d" % number)
        assert client.hears() == [b"result %d" % number]


def test_jobs_wait_for_a_worker_and_leave_first_in_first_out(peers: PlainPeers) -> None:
    client = peers.client()
    for number in range(200):
        client.say(b"%d" % number)

    worker = peers.worker().becomes_ready()

    for number in range(200):
        assert worker.takes_job() == b"%d" % number
        worker.say(b"done %d" % number)
    assert [client.hears() for _ in range(200)] == [[b"done %d" % n] for n in range(200)]


@expires
def test_an_idle_worker_that_falls_silent_is_dropped_from_the_ready_queue(
    peers: PlainPeers,
) -> None:
    silent = peers.worker().becomes_ready()
    time.sleep(EXPIRE + 0.6)  # the silence itself

    client = peers.client()
    client.say(b"a job")
    assert silent.hears_anything(SOON) is None
    other = peers.worker().becomes_ready()

    assert other.takes_job() == b"a job"
    assert silent.hears_anything(SOON) is None


@expires
def test_a_worker_that_pings_stays_in_the_ready_queue(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    end = time.monotonic() + 2.5 * EXPIRE
    while time.monotonic() < end:
        worker.say(b"PING")
        assert worker.hears() == [b"PONG"]
        time.sleep(EXPIRE / 5)

    client.say(b"a job")

    assert worker.hears() == [b"a job"]


@expires
def test_a_result_renews_the_expiry_like_any_message(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    end = time.monotonic() + 2.5 * EXPIRE
    while time.monotonic() < end:
        client.say(b"a job")
        assert worker.hears() == [b"a job"]
        worker.say(b"a result")
        assert client.hears() == [b"a result"]
        time.sleep(EXPIRE / 5)


@expires
def test_a_busy_worker_may_be_silent_for_longer_than_the_expiry(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    client.say(b"long")
    assert worker.hears() == [b"long"]
    other = peers.worker()
    end = time.monotonic() + 2.5 * EXPIRE
    while time.monotonic() < end:
        other.say(b"PING")
        assert other.takes_job_if_any(EXPIRE / 5) is None

    worker.say(b"done")

    assert client.hears() == [b"done"]


@pytest.mark.parametrize("word", [b"READY", b"PING"])
def test_a_worker_that_shows_itself_idle_has_lost_its_job(peers: PlainPeers, word: bytes) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    client.say(b"a job")
    assert worker.hears() == [b"a job"]
    time.sleep(2 * PlainWorkers.CROSSING)  # longer than a PING may cross a job on its way

    worker.say(word)

    assert sorted([worker.hears(), worker.hears()]) == [[b"PONG"], [b"a job"]]
    worker.say(b"at last")
    assert client.hears() == [b"at last"]
    assert client.hears_anything(SOON) is None


def test_a_ping_that_crosses_a_job_gives_exactly_one_answer(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()
    for number in range(50):
        client.say(b"%d" % number)
        worker.say(b"PING")
        answered = False
        while not answered:
            job = worker.takes_job_if_any(0.2)
            if job is None:
                worker.say(b"PING")
                continue
            assert job == b"%d" % number
            worker.say(b"done " + job)
            answered = client.socket.poll(1000) != 0
        assert client.hears() == [b"done %d" % number]


def test_a_plain_job_equal_to_pong_is_refused_with_the_reason(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.client()

    client.say(b"PONG")

    word, reason = client.hears()
    assert word == b"ERROR"
    assert b"PONG" in reason
    assert worker.hears_anything(SOON) is None


def test_a_req_client_can_go_on_after_a_refusal(peers: PlainPeers) -> None:
    worker, client = peers.worker().becomes_ready(), peers.req_client()
    client.say(b"PONG")
    assert client.hears()[0] == b"ERROR"

    client.say(b"a job")
    assert worker.takes_job() == b"a job"
    worker.say(b"fine")

    assert client.hears() == [b"fine"]


def test_each_client_gets_its_own_results_from_workers_that_answer_out_of_order(
    peers: PlainPeers,
) -> None:
    workers = [peers.worker().becomes_ready() for _ in range(3)]
    clients = [peers.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.say(b"%d" % number)
    held = [(worker, worker.takes_job()) for worker in workers]

    for worker, job in reversed(held):
        worker.say(b"for " + job)

    assert [client.hears() for client in clients] == [[b"for 0"], [b"for 1"], [b"for 2"]]


def test_plain_workers_are_listed_with_what_they_hold(
    yard: Yard, station: Station, peers: PlainPeers
) -> None:
    worker, client = peers.worker(b"old-timer").becomes_ready(), peers.client()
    client.say(b"a job")
    assert worker.hears() == [b"a job"]

    listed = until(lambda: [w for w in yard.client(station).workers() if w.jobs])

    assert [(w.kind, w.id) for w in listed] == [("plain", "plain:" + b"old-timer".hex())]
