"""Strangers on the UDP port, and peers with keys who go beyond their rights, get nowhere."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from system.udp.views import calculators, counting, jobs
from system.udp_peers import SignedPeer, UdpPeer, is_hello
from system.yard import Station, Yard, until

KEYS = {
    "ann": ["client", []],
    "bob": ["client", []],
    "calc-a": ["worker", ["default", "sum"]],
    "calc-b": ["worker", ["default"]],
    "reader": ["reader", []],
}
ADD = {"method": "add_task", "params": {"task_id": 5, "type": "nobody-does-it"}}
READY = {"method": "heartbeat", "params": {"status": "ready"}}
READY_TO_SUM = {"method": "heartbeat", "params": {"status": "ready", "handlers": ["sum"]}}
DONE = {"method": "completed_task", "params": {"task_id": 5, "result": "mine"}}
NOTIFY = {"method": "notify_task", "params": {"status": "success", "task_id": 5}}
PERFORM = {"method": "perform_task", "params": {"task_id": 5}}
PING = {"method": "ping"}
FORBIDDEN = [
    *itertools.product(["ann"], [READY, READY_TO_SUM, DONE]),
    *itertools.product(["calc-a"], [ADD]),
    *itertools.product(["calc-b"], [ADD, READY_TO_SUM]),
    *itertools.product(["reader"], [ADD, READY, DONE]),
]
UNKNOWN_METHODS = [*itertools.product(["ann", "calc-a", "reader"], [NOTIFY, PERFORM])]

Keyed = Callable[..., SignedPeer]
numbers = itertools.count(1)


def secret_of(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def asked(packet: dict[str, Any]) -> dict[str, Any]:
    return {**packet, "packet_type": 1, "transmission_id": next(numbers)}


@pytest.fixture(scope="module")
def key_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(json.dumps(KEYS))
    return path


@pytest.fixture(scope="module")
def station(shared_yard: Yard, key_list: Path) -> Station:
    """A dispatcher whose peers have keys."""
    made = Station(shared_yard, "keyed", {"udp.heartbeat_timeout": 60.0})
    words = ("dispatcher", "--config", str(shared_yard.config("keyed", made.settings)))
    env = f"PYTHONPATH={Path(__file__).parent / 'keyed'}", f"SHUNTER_TEST_KEYS={key_list}"
    made.process = shared_yard.process(words, "keyed", inside=("env", *env))
    until(lambda: made.health() == 200 or not made.process.is_alive)
    return made


@pytest.fixture(scope="module")
def open_station(shared_yard: Yard) -> Station:
    """A dispatcher on loopback that asks for no keys."""
    return shared_yard.dispatcher("open", udp__confirm_timeout=30.0, udp__heartbeat_timeout=60.0)


@pytest.fixture
def peers(station: Station) -> Iterator[Keyed]:
    made: list[SignedPeer] = []

    def make(key: str, secret: bytes | None = None) -> SignedPeer:
        name = f"peer-{random.randrange(10**9)}"
        made.append(SignedPeer(station, secret or secret_of(key), name=name, key=key))
        return made[-1] if secret else made[-1].introduced()

    yield make
    for each in made:
        each.close()


@pytest.fixture
def strangers() -> Iterator[Callable[[Station], UdpPeer]]:
    made: list[UdpPeer] = []

    def make(station: Station) -> UdpPeer:
        made.append(UdpPeer(station))
        return made[-1]

    yield make
    for each in made:
        each.close()


# ---- keys and their rights


@pytest.mark.parametrize(("key", "packet"), FORBIDDEN)
def test_a_key_is_told_what_it_may_not_do(
    station: Station, peers: Keyed, key: str, packet: dict[str, Any]
) -> None:
    peer, count, before = peers(key), counting(station), calculators(station)

    peer.say(asked(packet))
    error = peer.hears()["error"]
    peer.say({**packet, "packet_type": 0})

    assert error["code"] == "forbidden"
    assert key in error["message"]
    until(lambda: count("refused_udp_forbidden") == 2)
    assert count("jobs_accepted") == 0
    assert calculators(station) == before


@pytest.mark.parametrize(("key", "packet"), UNKNOWN_METHODS)
def test_nobody_gives_a_dispatcher_its_own_orders(
    peers: Keyed, key: str, packet: dict[str, Any]
) -> None:
    peer = peers(key)

    peer.say(asked(packet))

    assert peer.hears()["error"]["code"] == "method"


def test_each_key_does_what_it_is_for(station: Station, peers: Keyed) -> None:
    client, calculator = peers("ann"), peers("calc-a")
    calculator.say({**READY_TO_SUM, "packet_type": 0})
    until(lambda: calculator.address in str(calculators(station)))

    client.add_task("keyed-1", 1, type="sum", payload=[1, 2])
    assert client.hears() == {"packet_type": 2, "transmission_id": 1}
    task = calculator.hears()
    calculator.confirm(task)
    calculator.completed("keyed-1", 2, result=3)

    news = client.hears()
    assert (news["params"]["status"], news["params"]["result"]) == ("success", 3)
    client.confirm(news)
    calculator.heartbeat("busy", handlers=["sum"])


def test_another_worker_can_t_complete_or_confirm_what_it_was_not_given(
    station: Station, peers: Keyed
) -> None:
    client, calculator, thief = peers("ann"), peers("calc-a"), peers("calc-b")
    calculator.say({**READY_TO_SUM, "packet_type": 0})
    until(lambda: calculator.address in str(calculators(station)))
    client.add_task("keyed-2", 1, type="sum")
    client.hears()
    task = calculator.hears()

    thief.confirm(task)
    thief.completed("keyed-2", 9, attempt=1, result="stolen")
    assert thief.hears() == {"packet_type": 2, "transmission_id": 9}

    calculator.completed("keyed-2", 10, attempt=1, result="honest")
    assert client.hears()["params"]["result"] == "honest"


def test_two_clients_keys_never_share_a_task(station: Station, peers: Keyed) -> None:
    count = counting(station)
    for key in ("ann", "bob"):
        peer = peers(key)
        peer.add_task("same", 1, type="nobody-does-it")
        assert peer.hears() == {"packet_type": 2, "transmission_id": 1}

    assert count("jobs_accepted") == 2
    owners = {job["unique_key"] for job in jobs(station) if job["unique_key"].endswith("=same")}
    assert {owner.partition("/")[2] for owner in owners} == {"ann=same", "bob=same"}


def test_a_revoked_key_is_refused_at_once_and_no_one_sends_to_it(
    station: Station, peers: Keyed, key_list: Path
) -> None:
    peer, count = peers("bob"), counting(station)
    try:
        key_list.write_text(json.dumps({key: KEYS[key] for key in KEYS if key != "bob"}))
        peer.say(asked(ADD))
        until(lambda: count("refused_udp_unknown_key") == 1)
        assert peer.hears_nothing(0.1)
    finally:
        key_list.write_text(json.dumps(KEYS))

    peer.say(asked(ADD))
    assert "error" not in peer.hears()


@pytest.mark.parametrize(
    ("key", "secret", "reason"),
    [
        ("ann", secret_of("bob"), "wrong_mac"),
        ("nobody", secret_of("nobody"), "unknown_key"),
        ("", secret_of("ann"), "unknown_key"),
    ],
)
def test_another_s_name_or_an_unknown_one_gets_no_answer(
    station: Station, peers: Keyed, key: str, secret: bytes, reason: str
) -> None:
    peer, count = peers(key, secret), counting(station)

    peer.say(asked(ADD))

    until(lambda: count(f"refused_udp_{reason}") == 1)
    assert peer.hears_nothing(0.1)


@pytest.mark.parametrize("packet", [ADD, READY, DONE, PING])
def test_the_plain_dialogue_gets_no_answer_where_keys_are_asked_for(
    station: Station, strangers: Callable[[Station], UdpPeer], packet: dict[str, Any]
) -> None:
    stranger, count = strangers(station), counting(station)

    stranger.say(asked(packet))

    until(lambda: count("refused_udp_unsigned") == 1)
    assert stranger.hears_nothing(0.1)
    assert count("jobs_accepted") == 0


def test_what_a_thief_shows_first_is_the_owner_s_all_the_same(
    station: Station, peers: Keyed, strangers: Callable[[Station], UdpPeer]
) -> None:
    owner, thief, count = peers("ann"), strangers(station), counting(station)
    packet = asked(ADD)
    envelope = owner.envelope(packet)

    thief.say(envelope)
    thief.hears()
    assert is_hello(thief.raw)
    assert len(thief.raw) < 1.5 * len(envelope)
    assert count("jobs_accepted") == 0

    owner.say_as_it_is(envelope)
    expected = {"packet_type": 2, "transmission_id": packet["transmission_id"]}
    assert owner.hears() == expected
    assert count("jobs_accepted") == 1


# ---- without keys


def test_confirmations_that_are_guessed_or_come_from_elsewhere_confirm_nothing(
    open_station: Station, strangers: Callable[[Station], UdpPeer]
) -> None:
    client, calculator, forger = (strangers(open_station) for _ in range(3))
    calculator.heartbeat()
    until(lambda: calculators(open_station))
    count = counting(open_station)
    client.add_task(1, 1)
    client.hears()
    task = calculator.hears()

    forger.confirm(task)
    for guess in range(task["transmission_id"] - 5, task["transmission_id"]):
        calculator.say({"packet_type": 2, "transmission_id": guess})

    until(lambda: count("refused_udp_confirmation") == 6)
    assert calculator.hears() == task, "it is sent again: nobody has confirmed it"
    calculator.confirm(task)
    calculator.completed(1, 2)
    assert client.hears()["params"]["status"] == "success"


def test_ids_of_requests_tell_nothing_of_the_next_one(
    open_station: Station, strangers: Callable[[Station], UdpPeer]
) -> None:
    calculator, client = strangers(open_station), strangers(open_station)
    calculator.heartbeat(handlers=["ids"])
    ids = []
    for number in range(5):
        client.add_task(f"ids-{number}", number, type="ids")
        task = calculator.hears()
        ids.append(task["transmission_id"])
        calculator.confirm(task)
        calculator.completed(f"ids-{number}", number)
        while calculator.hears()["packet_type"] != 2:
            pass

    assert all(0 <= number < 2**53 for number in ids), "every language reads it as it is"
    assert min(abs(one - other) for one, other in itertools.pairwise(sorted(ids))) > 10**6


def test_a_silent_address_on_this_host_is_sent_a_large_packet_s_worth_of_repeats_at_most(
    open_station: Station, strangers: Callable[[Station], UdpPeer]
) -> None:
    silent, calculator = strangers(open_station), strangers(open_station)
    calculator.heartbeat(handlers=["long"])
    silent.add_task("long", 1, type="long")
    silent.hears()
    calculator.confirm(calculator.hears())
    calculator.completed("long", 2, result="x" * 700)

    first = silent.hears()
    assert silent.hears() == first, "one repeat has room"
    assert silent.hears_nothing(1.5), "two have not"

    silent.say({"method": "ping", "packet_type": 0, "padding": "x" * 300})
    assert silent.hears() == first, "whatever it says is room"
    silent.confirm(first)
