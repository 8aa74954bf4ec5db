"""What is large arrives, over slow links too, and costs a dispatcher a bounded number of bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from shunter.client import AsyncClient, Client
from shunter.model.job import Status
from shunter.model.submission import Submission
from shunter.model.worker import Handler
from shunter.wire import messages
from shunter.wire.messages import Accepted, Fetch, Hello, Kind, Offer, Submit
from system.full_peers import FullPeers
from system.plain_peers import Peer, PlainPeers
from system.relay import Relay
from system.yard import Station, Yard, until

MEGABYTE = 1_000_000
SLOW = 2 * MEGABYTE
"""Bytes per second of the slow link."""

MOST_MEGABYTES = 300
"""What a dispatcher may take at its peak, whatever arrives."""

LONG = 90.0


@pytest.fixture
def link() -> Iterator[Any]:
    """Make relays, and close them."""
    made: list[Relay] = []

    def make(target: str, bytes_per_second: float | None = SLOW) -> Relay:
        made.append(Relay(target, bytes_per_second=bytes_per_second))
        return made[-1]

    yield make
    for relay in made:
        relay.close()


def peak_megabytes(station: Station) -> float:
    """Return the most memory that the dispatcher has ever had."""
    for line in Path(f"/proc/{station.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise AssertionError("no VmHWM")


def document(size: int) -> bytes:
    return msgspec.msgpack.encode(b"x" * size)


def test_many_large_submissions_at_once_are_let_in_one_after_the_other(
    yard: Yard, link: Any
) -> None:
    clients, each, size = 9, 4, 8 * MEGABYTE
    station = yard.dispatcher()
    relay = link(station.frontend, None)

    async def submit_all() -> list[str]:
        async def submit() -> list[str]:
            async with AsyncClient(relay.address, timeout=LONG) as client:
                payload = document(size)
                jobs = [client.submit_raw("nobody", payload) for _ in range(each)]
                return [job.id for job in await asyncio.gather(*jobs)]

        ids = await asyncio.gather(*(submit() for _ in range(clients)))
        return [job_id for some in ids for job_id in some]

    submitted = asyncio.run(submit_all())

    offered = clients * each * size
    assert len(set(submitted)) == clients * each
    assert station.counters()["jobs_accepted"] == clients * each
    assert relay.carried["out"] <= 2 * offered
    assert peak_megabytes(station) < MOST_MEGABYTES


def test_a_large_submission_crosses_a_slow_link_once(yard: Yard, link: Any) -> None:
    station = yard.dispatcher()
    relay = link(station.frontend)

    with Client(relay.address) as client:
        client.submit_raw("nobody", document(5 * MEGABYTE))

    assert relay.carried["out"] <= 1.2 * 5 * MEGABYTE


def test_a_large_result_reaches_a_client_over_a_slow_link(yard: Yard, link: Any) -> None:
    station = yard.dispatcher()
    yard.worker(station)
    relay = link(station.frontend)

    with Client(relay.address) as client:
        result = client.submit("blob", 10.0).result(timeout=LONG)

    assert len(result) == 10 * 1024 * 1024
    assert relay.carried["back"] <= 2 * len(result)


def test_a_large_result_crosses_a_slow_link_from_the_worker(yard: Yard, link: Any) -> None:
    station = yard.dispatcher()
    relay = link(station.backend)
    worker = yard.worker(station, backends=[relay.address])

    with Client(station.frontend) as client:
        job = client.submit("blob", 10.0)
        assert len(job.result(timeout=LONG)) == 10 * 1024 * 1024
        assert client.job(job.id).attempt == 1

    assert worker.logged(action="self_destruct") == []
    assert worker.logged(action="fault") == []
    assert relay.carried["out"] <= 1.2 * 10 * 1024 * 1024


def test_a_large_payload_crosses_a_slow_link_to_the_worker(yard: Yard, link: Any) -> None:
    station = yard.dispatcher()
    relay = link(station.backend)
    worker = yard.worker(station, backends=[relay.address])

    with Client(station.frontend) as client:
        job = client.submit("size_of", b"x" * 10 * MEGABYTE)
        assert job.result(timeout=LONG) == 10 * MEGABYTE
        assert client.job(job.id).attempt == 1
        assert client.submit("add", 1, 2).result(timeout=LONG) == 3

    assert worker.logged(action="fault") == []
    assert relay.carried["back"] <= 1.2 * 10 * MEGABYTE


def test_a_job_that_is_cancelled_on_its_way_does_not_run_to_its_end(yard: Yard, link: Any) -> None:
    station = yard.dispatcher()
    relay = link(station.backend)
    yard.worker(station, backends=[relay.address])

    with Client(station.frontend) as client:
        job = client.submit("attempt_of", 60.0, ballast=b"x" * 10 * MEGABYTE)
        until(lambda: job.status() is Status.IN_PROGRESS)
        job.cancel()
        assert job.wait(timeout=LONG).status is Status.CANCELLED


def test_a_plain_worker_may_ping_while_a_large_job_is_on_its_way_to_it(
    yard: Yard, link: Any
) -> None:
    station = yard.dispatcher()
    relay = link(station.backend)
    peers = PlainPeers(station.frontend, relay.address)
    try:
        worker, client = peers.worker(b"slow").becomes_ready(), peers.client(b"c")
        client.say(b"x" * 8 * MEGABYTE)
        deadline = time.monotonic() + LONG
        while (job := worker.takes_job_if_any(0.5)) is None:
            assert time.monotonic() < deadline
            worker.say(b"PING")
        worker.say(b"done")

        assert len(job) == 8 * MEGABYTE
        assert client.hears() == [b"done"]
        assert station.counters().get("jobs_lost", 0) == 0
    finally:
        peers.close()


def test_older_clients_that_ask_for_no_leave_are_slowed_down(yard: Yard) -> None:
    clients, each, size = 3, 8, 8 * MEGABYTE
    station = yard.dispatcher()
    context: zmq.Context[Any] = zmq.Context()
    peers = [
        Peer(context, zmq.DEALER, station.frontend, b"older-%d" % number)
        for number in range(clients)
    ]
    try:
        payload = document(size)
        for request in range(1, each + 1):
            for peer in peers:
                submission = Submission(f"j-{peers.index(peer)}-{request}", "nobody", payload)
                body = msgspec.msgpack.encode(Submit(request, (submission,)))
                peer.send(b"", Kind.SUBMIT.value.encode(), body)
        for peer in peers:
            for _ in range(each):
                kind, body = peer.hears(LONG)
                assert kind == b"ACCEPTED"
                assert messages.decode(body, Accepted).receipts[0].reason == ""
    finally:
        for peer in peers:
            peer.socket.close()
        context.term()

    assert peak_megabytes(station) < MOST_MEGABYTES


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in parts"])
def test_a_client_that_asks_and_does_not_read_costs_a_bounded_amount(
    yard: Yard, parts: bool
) -> None:
    station = yard.dispatcher()
    yard.worker(station)
    with Client(station.frontend) as client:
        job = client.submit("blob", 8.0)
        job.wait(timeout=LONG)
        context: zmq.Context[Any] = zmq.Context()
        context.setsockopt(zmq.RCVHWM, 1)  # else what is not read waits here, and not there
        peers = [
            Peer(context, zmq.DEALER, station.frontend, b"deaf-%d" % number) for number in range(8)
        ]
        try:
            for request in range(1, 11):
                for peer in peers:
                    body = msgspec.msgpack.encode(Fetch(request, (job.id,), parts))
                    peer.send(b"", Kind.FETCH.value.encode(), body)
            assert all(peer.socket.poll(int(LONG * 1000)) for peer in peers)
            client.standing()  # questions are answered in turn, so all of theirs are by now

            assert len(client.job_handle(job.id).result(timeout=LONG)) == 8 * 1024 * 1024
        finally:
            for peer in peers:
                peer.socket.close()
            context.term()

    assert peak_megabytes(station) < MOST_MEGABYTES


def test_offers_that_are_never_made_good_cost_no_memory(yard: Yard) -> None:
    station = yard.dispatcher()
    context: zmq.Context[Any] = zmq.Context()
    peers = [
        Peer(context, zmq.DEALER, station.frontend, b"empty-%d" % number) for number in range(50)
    ]
    try:
        answers = []
        for number, peer in enumerate(peers):
            offer = Offer(number, Kind.SUBMIT, 16 * MEGABYTE)
            peer.send(b"", Kind.OFFER.value.encode(), msgspec.msgpack.encode(offer))
            answers.append(peer.hears()[0])
        assert answers.count(b"GRANT") == 2
        assert answers.count(b"DECLINE") == 48
        with Client(station.frontend) as client:
            client.submit_raw("nobody", document(1000))
    finally:
        for peer in peers:
            peer.socket.close()
        context.term()

    assert peak_megabytes(station) < MOST_MEGABYTES


def test_a_worker_that_takes_its_large_jobs_slowly_is_given_few_of_them(yard: Yard) -> None:
    station = yard.dispatcher()
    with Client(station.frontend) as client:
        for _ in range(20):
            client.submit_raw("size_of", document(8 * MEGABYTE))
    peers = FullPeers(station.backend)
    try:
        worker = peers.worker("idle")
        hello = Hello("idle", 1, (Handler("size_of"),), 40, 1, parts=True)
        worker.tell(Kind.READY, hello)
        worker.hears_kind(Kind.OFFER)
        until(lambda: station.counters()["jobs_claimed"] >= 4)
        time.sleep(1.0)

        assert station.counters()["jobs_claimed"] <= 12
    finally:
        peers.close()

    assert peak_megabytes(station) < MOST_MEGABYTES
