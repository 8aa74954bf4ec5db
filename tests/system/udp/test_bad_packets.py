"""A hostile network: what is wrong is counted, logged once, and changes nothing for anybody."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from system.calls import calls
from system.udp.views import calculators, counting, jobs
from system.udp_peers import UdpPeer
from system.yard import PATIENCE, Station, Yard, until

TIMES = 3

Peers = Callable[[], UdpPeer]


@pytest.fixture(scope="module")
def station(shared_yard: Yard) -> Station:
    return shared_yard.dispatcher(udp__confirm_timeout=30.0, udp__heartbeat_timeout=60.0)


@pytest.fixture
def stranger(station: Station, peer: Peers) -> Iterator[UdpPeer]:
    """Somebody who sends what is wrong; afterwards all is as it was, and others are served."""
    bad, good = peer(), peer()
    before = jobs(station), calculators(station)
    yield bad
    assert (jobs(station), calculators(station)) == before
    good.add_task(1, 1)
    assert good.hears() == {"packet_type": 2, "transmission_id": 1}


def request(method: str, number: Any = 3, **params: Any) -> bytes:
    packet = {"method": method, "params": params, "packet_type": 1, "transmission_id": number}
    return json.dumps(packet).encode()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ADD = b'{"method": "add_task", "packet_type": 1, "transmission_id": 3, "params": %b}'
TOLD = {
    "unknown-method": (request("nope"), "method"),
    "no-method": (b'{"packet_type": 1, "transmission_id": 3, "params": {"task_id": 1}}', "fields"),
    "a-dispatcher-s-method": (request("perform_task", task_id=1), "method"),
    "another-of-its-methods": (request("notify_task", status="success", task_id=1), "method"),
    "no-task-id": (request("add_task"), "fields"),
    "wrong-task-id": (request("add_task", task_id={"a": 1}), "fields"),
    "wrong-priority": (request("add_task", task_id=1, priority="high"), "fields"),
    "wrong-type": (request("add_task", task_id=1, type=5), "fields"),
    "wrong-bytes": (request("add_task", task_id=1, payload={"$bytes": "%"}), "fields"),
    "params-no-object": (ADD % b"[1, 2, 3]", "fields"),
    "nested-payload": (ADD % (b'{"task_id": 1, "payload": %b}' % nested(250)), "nesting"),
    "absurdly-nested": (ADD % (b'{"task_id": 1, "payload": %b}' % nested(530)), "nesting"),
    "no-utf-8": (ADD % b'{"task_id": "\xff\xfe", "type": "default"}', "not_json"),
    "wrong-attempt": (request("completed_task", task_id=1, attempt="first"), "fields"),
    "wrong-status": (request("heartbeat", status="sleepy"), "fields"),
}
UNTOLD = {
    "nothing": (b"", "not_json"),
    "no-text": (b"\xff\xfe", "not_json"),
    "no-json": (b"not json", "not_json"),
    "cut-off": (request("add_task", task_id=1)[:-1], "not_json"),
    "a-list": (b"[1, 2]", "not_an_object"),
    "a-number": (b"5", "not_an_object"),
    "an-empty-object": (b"{}", "fields"),
    "no-packet-type": (b'{"method": "add_task", "params": {"task_id": 1}}', "fields"),
    "wrong-packet-type": (request("add_task", task_id=1).replace(b": 1,", b": 7,"), "fields"),
    "no-transmission-id": (request("add_task", None, task_id=1), "fields"),
    "wrong-transmission-id": (request("add_task", [1], task_id=1), "fields"),
    "a-notice-that-is-wrong": (b'{"method": "add_task", "packet_type": 0, "params": {}}', "fields"),
    "a-notice-of-nothing": (b'{"method": "nope", "packet_type": 0, "params": {}}', "method"),
    "a-wrong-heartbeat": (
        b'{"method": "heartbeat", "packet_type": 0, "params": {"status": "sleepy"}}',
        "fields",
    ),
    "only-nesting": (nested(600), "not_an_object"),
    "nesting-without-end": (b"[" * 1200, "nesting"),
    "too-large": (request("add_task", task_id=1, payload="x" * 1200), "too_large"),
    "largest": (b"x" * 65_000, "too_large"),
    "too-short-for-an-error": (b'{"packet_type":1,"transmission_id":3}', "fields"),
    "nobody-waits": (b'{"packet_type": 2, "transmission_id": 99}', "confirmation"),
    "nobody-waits-for-an-error": (
        b'{"packet_type": 2, "transmission_id": 99, "error": {"code": "x"}}',
        "confirmation",
    ),
    "an-answer-with-bad-data": (
        b'{"packet_type": 2, "transmission_id": 99, "data": {"$bytes": 1}}',
        "fields",
    ),
}


def refused_once_in_the_log(station: Station, peer: UdpPeer, reason: str) -> bool:
    logged = station.process.logged(action="refuse", peer=peer.address)
    return [entry["reason"] for entry in logged] == [f"udp_{reason}"] and bool(logged[0]["detail"])


@pytest.mark.parametrize(("packet", "code"), TOLD.values(), ids=TOLD.keys())
def test_a_request_that_is_wrong_is_told_so_in_no_more_bytes_than_it_had(
    station: Station, stranger: UdpPeer, packet: bytes, code: str
) -> None:
    count = counting(station)

    for _ in range(TIMES):
        stranger.say(packet)
        answer = stranger.hears()

        assert (answer["packet_type"], answer["transmission_id"]) == (2, 3)
        assert answer["error"]["code"] == code
        assert len(stranger.raw) <= len(packet)
    until(lambda: count(f"refused_udp_{code}") == TIMES)
    assert refused_once_in_the_log(station, stranger, code)


@pytest.mark.parametrize(("packet", "reason"), UNTOLD.values(), ids=UNTOLD.keys())
def test_what_is_no_request_gets_no_answer(
    station: Station, stranger: UdpPeer, packet: bytes, reason: str
) -> None:
    count = counting(station)

    for _ in range(TIMES):
        stranger.say(packet)

    assert stranger.hears_nothing(0.1)
    until(lambda: count(f"refused_udp_{reason}") == TIMES)
    assert refused_once_in_the_log(station, stranger, reason)


def test_each_reason_and_each_peer_is_logged(station: Station, peer: Peers) -> None:
    peers = peer(), peer()
    for _ in range(TIMES):
        for each in peers:
            each.say(b"not json")
            each.say(b"[]")
    peers[1].add_task(1, 1)
    peers[1].hears()

    for each in peers:
        logged = station.process.logged(action="refuse", peer=each.address)
        assert [entry["reason"] for entry in logged] == ["udp_not_json", "udp_not_an_object"]


def test_a_prometheus_sees_what_was_refused(station: Station, stranger: UdpPeer) -> None:
    stranger.say(b"not json")

    def shown() -> bool:
        text = calls.get(f"{station.url}/metrics", timeout=PATIENCE).text
        return 'shunter_refused_total{reason="udp_not_json"}' in text

    until(shown)


# ---- answers to what was never asked


def test_a_completion_by_who_was_not_asked_is_confirmed_and_changes_nothing(
    station: Station, peer: Peers, stranger: UdpPeer
) -> None:
    count = counting(station)

    for number in range(TIMES):
        stranger.completed(1, number, result="a lie")
        assert stranger.hears() == {"packet_type": 2, "transmission_id": number}

    until(lambda: count("reports_refused") == TIMES)
    until(lambda: count("refused_JobError") == TIMES)
    assert len(station.process.logged(action="refuse", peer=f"udp:{stranger.address}")) == 1


@pytest.fixture
def task(station: Station, peer: Peers) -> tuple[UdpPeer, UdpPeer, dict[str, Any]]:
    """A client, a calculator, and what the latter was asked and has not confirmed."""
    client, calculator = peer(), peer()
    calculator.heartbeat(handlers=[client.address])
    until(lambda: f"udp:{calculator.address}" in calculators(station))
    client.add_task(5, 5, type=client.address)
    client.hears()
    return client, calculator, calculator.hears()


def test_what_others_say_of_a_task_counts_for_nothing(
    station: Station, peer: Peers, task: tuple[UdpPeer, UdpPeer, dict[str, Any]]
) -> None:
    client, calculator, asked = task
    liar, idle = peer(), peer()
    idle.heartbeat(handlers=["something-else"])

    liar.confirm(asked)
    for other in (liar, idle):
        other.completed(5, 6, result="a lie", attempt=1)
        assert other.hears() == {"packet_type": 2, "transmission_id": 6}

    assert calculator.hears() == asked  # it is still to be confirmed
    calculator.confirm(asked)
    calculator.completed(5, 6, result="the truth")
    news = client.hears()
    liar.confirm(news)
    assert client.hears() == news  # so is this
    assert news["params"]["result"] == "the truth"
    assert jobs(station, client)[0]["attempt"] == 1
    client.confirm(news)
    until(lambda: jobs(station, client)[0]["callback"]["didCallbackSuccessfully"])


def test_a_completion_of_another_attempt_counts_for_nothing(
    station: Station, task: tuple[UdpPeer, UdpPeer, dict[str, Any]]
) -> None:
    client, calculator, asked = task
    calculator.confirm(asked)

    calculator.completed(5, 6, result="a lie", attempt=2)
    calculator.completed(6, 7, result="a lie")

    assert [calculator.hears()["transmission_id"] for _ in range(2)] == [6, 7]
    assert jobs(station, client)[0]["status"] == "i"
    calculator.completed(5, 8, result="the truth", attempt=1)
    assert client.hears()["params"]["result"] == "the truth"


# ---- how much a stranger gets back


def test_no_damaged_request_is_answered_with_more_bytes_than_it_had(
    station: Station, peer: Peers
) -> None:
    """Each comes from a peer of its own, so that all that it gets back can be counted."""
    chance = random.Random(4)
    whole = [
        request("add_task", task_id=5, type="x", payload={"a": [1, "zwei", None]}),
        request("completed_task", "a" * 60, task_id="t" * 100, error="oh"),
        b'{"packet_type":1,"transmission_id":10,"method":"add_task","params":{"task_id":1}}',
        b'{"packet_type":1,"transmission_id":"\\u00e9\\n","method":"nope"}',
        b'{"packet_type":2,"transmission_id":5,"data":{"a":1}}',
    ]
    sent = []
    for number in range(300):
        packet = bytearray(whole[number % len(whole)])
        for _ in range(chance.randrange(3)):
            place = chance.randrange(len(packet))
            packet[place : place + chance.randrange(3)] = chance.choice(
                [b"", b'"', b"{", b"\\", b"9", b"\xff", b"null", b'"' * 5]
            )
        each = peer()
        each.say(bytes(packet))
        sent.append((each, bytes(packet)))

    last = peer()
    last.add_task(1, 1)
    last.hears()  # so all before it was read, and committed
    got = 0
    for each, packet in sent:
        answers = each.all_that_came()
        assert sum(map(len, answers)) <= len(packet), (packet, answers)
        got += len(answers)
    assert got > 40  # else this would show nothing


def test_a_flood_of_rubbish_is_one_line_in_the_log_and_delays_nobody_for_long(
    station: Station, peer: Peers
) -> None:
    loud = peer()

    def seconds_until_answered() -> float:
        for number in range(4000):
            loud.say(b"rubbish %d" % number)
        client, asked = peer(), time.monotonic()
        while True:
            client.add_task(1, 1)
            try:
                assert client.hears(within=1.0) == {"packet_type": 2, "transmission_id": 1}
            except TimeoutError:  # the system had no room for it
                continue
            return time.monotonic() - asked

    assert any(seconds_until_answered() < 5.0 for _ in range(4))  # on a busy machine not each time
    assert refused_once_in_the_log(station, loud, "not_json")


# ---- those who can't be answered


def test_a_client_that_is_gone_hinders_nobody(station: Station, peer: Peers) -> None:
    """Its port is closed: the system answers what is sent there with a refusal."""
    client, calculator = UdpPeer(station), peer()
    client.add_task(1, 1, type=calculator.address)
    client.hears()
    client.close()
    calculator.heartbeat(handlers=[calculator.address])
    calculator.confirm(calculator.hears())
    calculator.completed(1, 1)
    calculator.hears()

    for number in range(20):
        other = peer()
        other.add_task(1, number)
        assert other.hears() == {"packet_type": 2, "transmission_id": number}
    assert station.process.is_alive


def test_a_calculator_that_is_gone_hinders_nobody(station: Station, peer: Peers) -> None:
    gone, client, other = UdpPeer(station), peer(), peer()
    gone.heartbeat(handlers=[client.address])
    until(lambda: f"udp:{gone.address}" in calculators(station))
    gone.close()

    client.add_task(1, 1, type=client.address)

    assert client.hears() == {"packet_type": 2, "transmission_id": 1}
    other.add_task(1, 1)
    assert other.hears() == {"packet_type": 2, "transmission_id": 1}


def test_an_address_that_nobody_can_send_to_hinders_nobody(station: Station, peer: Peers) -> None:
    """Port 0 as the sender's: `sendto` fails each time, for answers, tasks and notices."""
    good = peer()
    beat = json.loads(request("heartbeat", status="ready", handlers=["zero"]))
    for packet in (
        request("nope"),
        request("add_task", 4, task_id=4, type="zero"),
        json.dumps({**beat, "packet_type": 0}).encode(),
        request("add_task", 5, task_id=5, type="zero"),
    ):
        say_from_port_zero(station, packet)
        good.heartbeat("busy")
    until(lambda: [job["status"] for job in jobs(station) if job["type"] == "zero"] == ["q", "i"])

    good.add_task(1, 1)

    assert good.hears() == {"packet_type": 2, "transmission_id": 1}
    assert station.process.is_alive


def say_from_port_zero(station: Station, packet: bytes) -> None:
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    except PermissionError:
        pytest.skip("packets from port 0 need root")
    header = struct.pack("!HHHH", 0, station.udp_port, 8 + len(packet), 0)
    with raw:
        raw.sendto(header + packet, ("127.0.0.1", 0))
