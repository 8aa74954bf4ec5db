"""Any client with any worker: four kinds of each, all sixteen pairs, with real sockets.

Every worker gives back what it was given. ZeroMQ carries bytes; JSON shows them as
`{"$bytes": "<base64>"}`.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from system.calls import calls
from system.http_peers import ForeignWorker
from system.plain_peers import PlainPeers
from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Station, Yard, until

APP = f"{Path(__file__).parent / 'default_app.py'}:app"
DATA = bytes(range(256))
SHOWN = {"$bytes": base64.b64encode(DATA).decode()}


def unwrapped(payload: Any) -> Any:
    """A single argument may travel in a list of one."""
    return payload[0] if isinstance(payload, list) else payload


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher()


@pytest.fixture(scope="module")
def plain(station: Station) -> Iterator[PlainPeers]:
    peers = PlainPeers(station.frontend, station.backend)
    yield peers
    peers.close()


# ---- workers


def ours(station: Station, yard: Yard, plain: PlainPeers) -> Callable[[], object]:
    config = yard.config("ours", {"worker.dispatchers": [station.backend]})
    process = yard.process(("worker", "--app", APP, "--config", str(config)), "ours")
    return process.terminate


def plain_dealer(station: Station, yard: Yard, plain: PlainPeers) -> Callable[[], object]:
    stopping = threading.Event()

    def serve() -> None:
        own = PlainPeers(station.frontend, station.backend)
        worker = own.worker().becomes_ready()
        while not stopping.is_set():
            job = worker.takes_job_if_any(0.5)
            worker.say(b"PING" if job is None else job)
        own.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return lambda: (stopping.set(), thread.join())


def udp_calculator(station: Station, yard: Yard, plain: PlainPeers) -> Callable[[], object]:
    stopping = threading.Event()

    def serve() -> None:
        calculator, number = UdpPeer(station), 0
        while not stopping.is_set():
            calculator.heartbeat("ready")
            try:
                packet = calculator.hears(within=0.3)
            except TimeoutError:
                continue
            if packet.get("method") == "perform_task":
                number += 1
                calculator.confirm(packet)
                task = packet["params"]
                calculator.completed(task["task_id"], number, result=unwrapped(task["payload"]))
        calculator.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return lambda: (stopping.set(), thread.join())


def http_worker(station: Station, yard: Yard, plain: PlainPeers) -> Callable[[], object]:
    worker = ForeignWorker(station, handlers=("default",))
    worker.work = lambda job: unwrapped(job["payload"])
    worker.listen().register()
    return lambda: (worker.resign(), worker.close())


@pytest.fixture(scope="module", params=[ours, plain_dealer, udp_calculator, http_worker])
def worker(
    request: pytest.FixtureRequest, station: Station, shared_yard: Yard, plain: PlainPeers
) -> Iterator[None]:
    leave = request.param(station, shared_yard, plain)
    yield
    leave()

    def all_gone() -> bool:
        listed = calls.get(f"{station.url}/dispatcher/workers/").json()
        return not any(w["jobs"] for w in listed["workers"])

    until(all_gone)


# ---- clients: each returns the result, and what it should be


def python_client(station: Station, yard: Yard, plain: PlainPeers) -> tuple[Any, Any]:
    return yard.client(station).submit("default", DATA).result(PATIENCE), DATA


def plain_req(station: Station, yard: Yard, plain: PlainPeers) -> tuple[Any, Any]:
    client = plain.client(kind=zmq.REQ)
    client.say(DATA)
    return client.hears(), [DATA]


def udp_client(station: Station, yard: Yard, plain: PlainPeers) -> tuple[Any, Any]:
    client = UdpPeer(station, wait=PATIENCE)
    client.add_task(1, 1, payload=SHOWN)
    assert client.hears() == {"packet_type": 2, "transmission_id": 1}
    news = client.hears()
    client.confirm(news)
    client.close()
    return news["params"]["result"], SHOWN


def http_client(station: Station, yard: Yard, plain: PlainPeers) -> tuple[Any, Any]:
    jobs = f"{station.url}/dispatcher/jobs/"
    body = {"type": "default", "payload": SHOWN}
    job_id = calls.post(jobs, json=body).json()["id"]
    job = until(lambda: (it := calls.get(jobs + job_id).json())["status"] == "c" and it)
    return job["result"], SHOWN


@pytest.mark.parametrize("client", [python_client, plain_req, udp_client, http_client])
def test_any_client_is_served_by_any_worker(
    client: Callable[..., tuple[Any, Any]],
    worker: None,
    station: Station,
    shared_yard: Yard,
    plain: PlainPeers,
) -> None:
    result, expected = client(station, shared_yard, plain)

    assert result == expected
