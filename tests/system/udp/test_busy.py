"""A client with too many tasks under way is told to wait; nobody else notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shunter import DispatcherBusy, UdpClient
from system.udp.views import cancel, counting, jobs
from system.udp_peers import UdpPeer
from system.yard import Station, Yard, until

LIMIT = 3

Peers = Callable[[], UdpPeer]


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher(udp__max_tasks_per_client=LIMIT)


@pytest.fixture
def full(peer: Peers) -> UdpPeer:
    """A client that has as many tasks under way as it may have: 0, 1 and 2."""
    client = peer()
    for number in range(LIMIT):
        client.add_task(number, number, type=client.address)
        assert client.hears() == confirmation(number)
    return client


def confirmation(number: int | str) -> dict[str, Any]:
    return {"packet_type": 2, "transmission_id": number}


def is_busy(answer: dict[str, Any]) -> bool:
    return bool(answer.get("error", {}).get("code") == "busy")


def test_one_task_too_many_is_refused_as_busy_and_nobody_else_s(
    station: Station, full: UdpPeer, peer: Peers
) -> None:
    count, other = counting(station), peer()

    full.add_task(3, 3, payload="x" * 200)

    refusal = full.hears()
    assert refusal["transmission_id"] == 3
    assert refusal["error"] == {
        "code": "busy",
        "message": "too many tasks are under way; wait for some to end, then send it again",
    }
    other.add_task(3, 3)
    assert other.hears() == confirmation(3)
    assert len(jobs(station, full)) == LIMIT
    until(lambda: count("refused_udp_busy") == 1)
    assert len(station.process.logged(peer=full.address, reason="udp_busy")) == 1


def test_a_task_that_is_under_way_is_confirmed_again_under_another_transmission_id(
    station: Station, full: UdpPeer
) -> None:
    full.add_task(2, 20, type=full.address)

    assert full.hears() == confirmation(20)
    full.add_task(3, 21)
    assert is_busy(full.hears())
    assert len(jobs(station, full)) == LIMIT


def test_the_same_packet_is_accepted_once_a_task_has_ended(
    station: Station, full: UdpPeer, peer: Peers
) -> None:
    full.add_task(3, 3)
    assert is_busy(full.hears())
    calculator = peer()
    calculator.heartbeat(handlers=[full.address])
    task = calculator.hears()
    calculator.confirm(task)
    calculator.completed(task["params"]["task_id"], 7)
    full.confirm(full.hears())

    full.add_task(3, 3)

    assert full.hears() == confirmation(3)
    full.add_task(4, 4)
    assert is_busy(full.hears())


def test_a_resend_of_an_accepted_task_is_confirmed_at_the_limit_too(full: UdpPeer) -> None:
    for number in range(LIMIT):
        full.add_task(number, number, type=full.address)
        assert full.hears() == confirmation(number)


def test_a_burst_gets_no_further_than_tasks_one_by_one(station: Station, peer: Peers) -> None:
    """All of it arrives before anything is stored."""
    client = peer()
    for number in range(100):
        client.add_task(number, number)

    answers = [client.hears() for _ in range(100)]

    assert sum(map(is_busy, answers)) == 100 - LIMIT
    assert len(jobs(station, client)) == LIMIT


def test_a_duplicate_does_not_count_twice(station: Station, peer: Peers) -> None:
    client = peer()
    for task_id, number in ((0, "a"), (0, "b"), (1, "c"), (1, "d"), (0, "e"), (2, "f")):
        client.add_task(task_id, number)
        assert client.hears() == confirmation(number)

    assert len(jobs(station, client)) == LIMIT


def test_a_duplicate_of_a_task_that_has_ended_does_not_count_at_all(
    station: Station, full: UdpPeer
) -> None:
    for job in jobs(station, full):
        cancel(station, job["id"])
        news = full.hears()
        assert news["params"]["status"] == "error"
        full.confirm(news)

    for task_id, number in ((0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")):
        full.add_task(task_id, number, type=full.address)
        assert full.hears() == confirmation(number)


def test_what_another_dispatcher_ended_makes_room(
    shared_yard: Yard, station: Station, full: UdpPeer
) -> None:
    other = shared_yard.dispatcher("other", store__url=station.settings["store.url"])
    cancel(other, jobs(station, full)[0]["id"])

    def is_accepted() -> bool:
        full.add_task(3, 3)
        while "method" in (answer := full.hears()):
            pass
        return not is_busy(answer)

    until(is_accepted)


def test_our_client_raises_that_the_dispatcher_is_busy(station: Station) -> None:
    with UdpClient(("127.0.0.1", station.udp_port)) as client:
        tasks = [client.submit("nobody-does-it") for _ in range(LIMIT)]
        with pytest.raises(DispatcherBusy, match="wait for some to end, then send it again"):
            client.submit("nobody-does-it", "x" * 200)

        cancel(station, next(j["id"] for j in jobs(station) if j["type"] == "nobody-does-it"))

        until(lambda: any(task.is_done for task in tasks))
        client.submit("nobody-does-it")
