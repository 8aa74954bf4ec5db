"""One peer that wants everything: names and types without number, questions without end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import httpx
import msgspec
import pytest
import zmq

from shunter.client import AsyncClient, Client
from shunter.gateway.zmq.questions import BOUNDS
from shunter.model.worker import MAX_HANDLERS, Handler
from shunter.testing.mongod import LocalMongod
from shunter.wire.messages import Fetch, Hello, Kind, Standing
from system.full_peers import FullWorker
from system.keys import Door
from system.plain_peers import Peer
from system.yard import PATIENCE, Yard, until

NAMES = 5_000


@pytest.fixture(scope="module")
def open_door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=False)


@pytest.fixture(scope="module")
def keyed_door(shared_yard: Yard) -> Door:
    return Door(shared_yard, is_keyed=True)


@pytest.fixture(params=["open", "keyed"])
def door(request: pytest.FixtureRequest) -> Door:
    found: Door = request.getfixturevalue(f"{request.param}_door")
    return found


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    with door.client() as client:
        yield client


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        yield context


def test_a_connection_is_one_worker(
    door: Door, client: Client, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    first = door.worker_id("name-0")
    stranger = FullWorker(context, door.station.backend, first, curve=door.worker_pair)
    for number in range(NAMES):
        hello = Hello(door.worker_id(f"name-{number}"), 1, (Handler("add"),), 1, 1)
        stranger.tell(Kind.READY, hello)

    assert f"this connection is that of {first}" in stranger.is_refused()
    until(lambda: client.standing().counters.get("refused_hello", 0) >= NAMES - 1)
    named = [worker.id for worker in client.workers() if "name-" in worker.id]
    assert named == [first]
    stranger.socket.close()


def test_a_worker_with_twenty_thousand_types_is_refused_and_nobody_waits(
    door: Door, client: Client, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    address, pair = door.station.backend, door.worker_pair
    greedy, busy = door.worker_id("greedy"), door.worker_id("busy")
    stranger = FullWorker(context, address, greedy, curve=pair)
    many = tuple(Handler(f"type-{n}") for n in range(20_000))
    client.standing()

    def seconds_until_served() -> float:
        began = time.monotonic()
        stranger.tell(Kind.READY, Hello(greedy, 1, many, 1, 1))
        assert "20000 types of job" in stranger.is_refused()
        assert client.submit("nobody", 1, 2).id
        return time.monotonic() - began

    assert any(seconds_until_served() < 5.0 for _ in range(4))  # on a busy machine not each time
    most = FullWorker(context, address, busy, curve=pair)
    assert most.introduces_itself(*(f"type-{n}" for n in range(MAX_HANDLERS)))
    stranger.socket.close()
    most.socket.close()
    known = {worker.id for worker in client.workers()}
    assert (greedy in known, busy in known) == (False, True)


def test_a_client_with_many_questions_is_put_off_and_others_are_answered(
    door: Door, client: Client, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    jobs = client.submit_many("nobody", [(n,) for n in range(1000)])
    question = msgspec.msgpack.encode(Fetch(1, tuple(job.id for job in jobs)))
    greedy = Peer(context, zmq.DEALER, door.station.frontend, b"greedy", curve=door.client_pair)

    for _ in range(2 * BOUNDS.peer_count):
        greedy.send(b"", b"FETCH", question)
    waits = []
    for _ in range(5):
        began = time.monotonic()
        client.standing()
        waits.append(time.monotonic() - began)

    kinds = {greedy.hears(PATIENCE)[0] for _ in range(2 * BOUNDS.peer_count)}
    assert kinds == {b"FETCH", b"BUSY"}
    assert client.standing().counters["questions_put_off"] > 0
    assert sorted(waits)[2] < 2.0
    greedy.socket.close()


@pytest.mark.parametrize("door", ["open"], indirect=True)
def test_our_client_asks_again_when_it_is_put_off(door: Door, client: Client) -> None:
    count = 8 * BOUNDS.peer_count

    async def ask_all() -> list[Standing]:
        address, options = door.station.frontend, door.client_options
        async with AsyncClient(address, timeout=PATIENCE, **options) as client:
            return await asyncio.gather(*(client.standing() for _ in range(count)))

    before = client.standing().counters.get("questions_put_off", 0)
    answers = asyncio.run(ask_all())

    assert len({answer.dispatcher_id for answer in answers}) == 1
    assert max(answer.counters.get("questions_put_off", 0) for answer in answers) > before


def test_readyz_is_red_while_the_store_does_not_answer(yard: Yard, mongod: LocalMongod) -> None:
    station = yard.dispatcher(store__url=mongod.url("silent"))

    def readiness() -> int:
        return httpx.get(f"{station.url}/readyz", timeout=PATIENCE).status_code

    until(lambda: readiness() == 200)
    os.kill(mongod.pid, signal.SIGSTOP)
    try:
        until(lambda: readiness() == 503)
        assert station.health() == 200, "a restart would mend nothing"
    finally:
        os.kill(mongod.pid, signal.SIGCONT)
    until(lambda: readiness() == 200)
