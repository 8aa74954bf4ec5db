"""Seed 003, line by line: bare sockets get exactly the dialogue that it describes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from system.udp.views import calculators, jobs
from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Station, until

Peers = Callable[[], UdpPeer]


def free(calculator: UdpPeer, station: Station, count: int = 1) -> None:
    """Have a calculator say that it is ready, and wait until the dispatcher knows."""
    calculator.heartbeat("ready")
    until(lambda: len(calculators(station)) >= count)


def test_the_packets_of_the_seed_get_the_dialogue_of_the_seed(
    station: Station, peer: Peers
) -> None:
    client, calculator = peer(), peer()
    free(calculator, station)

    client.say(
        b'{"method": "add_task", "params": {"task_id": 5}, "packet_type": 1, '
        b'"transmission_id": 1598326709621}'
    )
    assert client.hears() == {"packet_type": 2, "transmission_id": 1598326709621}

    task = calculator.hears()
    assert (task["method"], task["packet_type"]) == ("perform_task", 1)
    assert task["params"].pop("job_id")
    assert task["params"] == {"task_id": 5, "attempt": 1}
    calculator.confirm(task)

    calculator.say(
        b'{"method": "completed_task", "params": {"task_id": 5}, "packet_type": 1, '
        b'"transmission_id": 1598326709000}'
    )
    assert calculator.hears() == {"packet_type": 2, "transmission_id": 1598326709000}

    news = client.hears()
    assert (news["method"], news["packet_type"]) == ("notify_task", 1)
    assert news["params"]["status"] == "success"
    assert news["params"]["task_id"] == 5
    client.confirm(news)
    until(lambda: jobs(station)[0]["callback"]["didCallbackSuccessfully"])
    assert client.hears_nothing(1.0)


def test_a_success_is_repeated_under_one_id_until_it_is_confirmed(
    station: Station, peer: Peers
) -> None:
    client, calculator = peer(), peer()
    free(calculator, station)
    client.add_task(1, 1)
    client.hears()
    calculator.confirm(calculator.hears())
    calculator.completed(1, 2, result={"sum": 42})

    first, second = client.hears(), client.hears()

    assert first == second
    assert first["params"]["result"] == {"sum": 42}

    client.add_task(1, 3)  # as one does that was started anew
    heard = [client.hears() for _ in range(4)]
    heard.remove({"packet_type": 2, "transmission_id": 3})
    assert heard == [first] * 3
    client.confirm(first)
    assert client.hears_nothing(2.0)


def test_a_resent_packet_is_answered_again_and_not_done_again(
    station: Station, peer: Peers
) -> None:
    client = peer()
    for _ in range(3):
        client.add_task(7, 70)
        assert client.hears() == {"packet_type": 2, "transmission_id": 70}

    assert len(jobs(station)) == 1


def test_the_same_task_under_another_id_is_confirmed_and_does_nothing(
    station: Station, peer: Peers
) -> None:
    client, other = peer(), peer()
    client.add_task(7, 70)
    client.hears()
    client.add_task(7, 71, payload={"changed": True})
    assert client.hears() == {"packet_type": 2, "transmission_id": 71}
    assert len(jobs(station)) == 1

    other.add_task(7, 70)
    other.hears()
    assert len(jobs(station)) == 2


@pytest.mark.parametrize("confirm_timeout", [1.5])
def test_a_calculator_that_does_not_confirm_is_passed_over(station: Station, peer: Peers) -> None:
    client, deaf, willing = peer(), peer(), peer()
    free(deaf, station)
    client.add_task(1, 1)
    client.hears()
    assert deaf.hears()["method"] == "perform_task"
    free(willing, station, 1)

    task = willing.hears()

    assert task["params"]["task_id"] == 1
    willing.confirm(task)
    willing.completed(1, 9)
    assert client.hears()["params"]["status"] == "success"


@pytest.mark.parametrize("placed_within", [3.0])
def test_a_task_that_nobody_takes_fails_and_is_never_sent_out_again(
    station: Station, peer: Peers
) -> None:
    client = peer()
    client.add_task(1, 1)
    client.hears()

    news = client.hears(within=PATIENCE)

    assert news["packet_type"] == 1
    assert news["params"]["status"] == "failed_post"
    assert client.hears() == news, "it is told until it is confirmed"
    client.confirm(news)
    until(lambda: jobs(station)[0]["callback"]["didCallbackSuccessfully"])
    client.all_that_came()
    assert client.hears_nothing(1.5)
    late = peer()
    free(late, station)
    assert late.hears_nothing(1.0)


@pytest.mark.parametrize("task_timeout", [3.0])
def test_a_calculator_that_never_completes_loses_its_task_to_another(
    station: Station, peer: Peers
) -> None:
    client, slow, quick = peer(), peer(), peer()
    free(slow, station)
    client.add_task(1, 1)
    client.hears()
    slow.confirm(slow.hears())
    begun = time.monotonic()
    free(quick, station, 2)

    task = quick.hears()

    assert time.monotonic() - begun > 2.0
    assert task["params"]["attempt"] == 2
    quick.confirm(task)
    quick.completed(1, 5, result="quick")
    slow.completed(1, 6, result="slow")
    assert client.hears()["params"]["result"] == "quick"
    assert slow.hears() == {"packet_type": 2, "transmission_id": 6}


def test_ready_after_a_confirmation_gives_the_task_to_another_at_once(
    station: Station, peer: Peers
) -> None:
    client, forgetful = peer(), peer()
    free(forgetful, station)
    client.add_task(1, 1)
    client.hears()
    forgetful.confirm(forgetful.hears())
    time.sleep(0.2)

    forgetful.heartbeat("ready")

    again = forgetful.hears()
    assert again["params"].pop("job_id")
    assert again["params"] == {"task_id": 1, "attempt": 2}


def test_two_clients_may_use_the_same_task_id(station: Station, peer: Peers) -> None:
    one, two, first, second = peer(), peer(), peer(), peer()
    free(first, station)
    free(second, station, 2)
    one.add_task(5, 1)
    one.hears()
    two.add_task(5, 1)
    two.hears()
    for calculator in (first, second):
        calculator.confirm(calculator.hears())

    first.completed(5, 8, result="first")
    second.completed(5, 8, result="second")

    assert {one.hears()["params"]["result"], two.hears()["params"]["result"]} == {
        "first",
        "second",
    }


def test_an_error_is_told_until_it_is_confirmed(station: Station, peer: Peers) -> None:
    client, calculator = peer(), peer()
    free(calculator, station)
    client.add_task(1, 1)
    client.hears()
    calculator.confirm(calculator.hears())

    calculator.completed(1, 2, error="no such file")

    news = client.hears()
    assert (news["packet_type"], news["params"]["status"]) == (1, "error")
    assert news["params"]["error"] == "no such file"
    assert client.hears() == news
    client.confirm(news)
    until(lambda: jobs(station)[0]["callback"]["didCallbackSuccessfully"])
    client.all_that_came()
    assert client.hears_nothing(1.5)


def test_a_success_that_was_not_confirmed_survives_a_restart(station: Station, peer: Peers) -> None:
    client, calculator = peer(), peer()
    free(calculator, station)
    client.add_task(1, 1)
    client.hears()
    calculator.confirm(calculator.hears())
    calculator.completed(1, 2)
    first = client.hears()

    station.restart()

    news = client.hears(within=PATIENCE)
    assert news == first
    client.confirm(news)
    until(lambda: jobs(station)[0]["callback"]["didCallbackSuccessfully"])


def test_a_task_given_before_a_restart_can_be_completed_after_it(
    station: Station, peer: Peers
) -> None:
    client, calculator = peer(), peer()
    free(calculator, station)
    client.add_task(1, 1)
    client.hears()
    calculator.confirm(calculator.hears())

    station.restart()
    calculator.heartbeat("busy")
    calculator.completed(1, 2, result="in time")

    assert calculator.hears() == {"packet_type": 2, "transmission_id": 2}
    assert client.hears()["params"]["result"] == "in time"
