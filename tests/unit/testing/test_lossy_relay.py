"""The bad network of the tests, on real sockets: it is as bad as it says, and no worse."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from shunter.testing.lossy_relay import Address, Fate, LossyRelay, Traffic, Weather

PACKETS = 1000


def opened() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
    made.bind(("127.0.0.1", 0))
    made.settimeout(5.0)
    return made


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with closing(opened()) as made:
        yield made


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with closing(opened()) as made:
        yield made


def all_of(receiver: socket.socket, relay: LossyRelay, received: int) -> list[bytes]:
    """Return what arrives, once the relay has dealt with so many packets."""
    deadline = time.monotonic() + 20
    while (relay.traffic.received < received or relay.pending) and time.monotonic() < deadline:
        time.sleep(0.005)
    packets = []
    receiver.settimeout(0.1)
    try:
        while True:
            packets.append(receiver.recv(2000))
    except TimeoutError:
        return packets


def stream(sender: socket.socket, to: Address) -> None:
    for number in range(PACKETS):
        sender.sendto(b"%d" % number, to)
        if number % 50 == 0:
            time.sleep(0.001)


def test_in_fair_weather_all_arrive_in_order_both_ways(
    server: socket.socket, client: socket.socket
) -> None:
    with LossyRelay(server.getsockname(), Weather(), seed=1) as relay:
        for number in range(100):
            client.sendto(b"there %d" % number, relay.address)
            packet, sender = server.recvfrom(2000)
            server.sendto(b"back %d" % number, sender)
            assert (packet, client.recv(2000)) == (b"there %d" % number, b"back %d" % number)

    assert relay.traffic == Traffic(received=200, sent=200)


def test_each_peer_has_an_address_of_its_own_and_gets_its_own_answers(
    server: socket.socket,
) -> None:
    clients = [opened() for _ in range(5)]
    with LossyRelay(server.getsockname(), Weather(), seed=1) as relay:
        for _ in range(2):
            for number, client in enumerate(clients):
                client.sendto(b"%d" % number, relay.address)
        senders = {}
        for _ in range(10):
            packet, sender = server.recvfrom(2000)
            assert senders.setdefault(packet, sender) == sender
        for packet, sender in senders.items():
            server.sendto(packet, sender)

        assert len(set(senders.values())) == 5
        assert [client.recv(2000) for client in clients] == [b"0", b"1", b"2", b"3", b"4"]
    for client in clients:
        client.close()


def test_packets_are_lost_and_doubled_as_often_as_asked(
    server: socket.socket, client: socket.socket
) -> None:
    with LossyRelay(server.getsockname(), Weather(loss=0.3, doubles=0.1), seed=5) as relay:
        stream(client, relay.address)
        arrived = Counter(all_of(server, relay, PACKETS))
    traffic = relay.traffic

    assert 0.25 < traffic.lost / PACKETS < 0.35
    assert 0.05 < traffic.doubled / (PACKETS - traffic.lost) < 0.15
    assert len(arrived) == PACKETS - traffic.lost
    assert sum(times == 2 for times in arrived.values()) == traffic.doubled
    assert traffic.sent == arrived.total()


def test_packets_overtake_each_other(server: socket.socket, client: socket.socket) -> None:
    weather = Weather(held_back=0.2, hold=0.005, delay=(0.0, 0.002))
    with LossyRelay(server.getsockname(), weather, seed=5) as relay:
        stream(client, relay.address)
        arrived = [int(packet) for packet in all_of(server, relay, PACKETS)]

    assert sorted(arrived) == list(range(PACKETS))
    assert arrived != sorted(arrived)


def test_the_way_back_is_as_bad(server: socket.socket, client: socket.socket) -> None:
    with LossyRelay(server.getsockname(), Weather(), seed=5) as relay:
        client.sendto(b"hello", relay.address)
        _, sender = server.recvfrom(2000)
        relay.weather = Weather(loss=0.5)
        stream(server, sender)
        arrived = all_of(client, relay, PACKETS + 1)

        assert len(arrived) == PACKETS - relay.traffic.lost
        assert 0.4 < len(arrived) / PACKETS < 0.6


def test_one_seed_means_one_fate() -> None:
    weather = Weather(loss=0.3, doubles=0.1, held_back=0.1, delay=(0.0, 1.0))

    def fates(seed: str) -> list[list[float]]:
        fate = Fate(seed)
        return [fate.delays(weather, Traffic()) for _ in range(100)]

    assert fates("1") == fates("1")
    assert fates("1") != fates("2")


def test_a_delay_is_kept(server: socket.socket, client: socket.socket) -> None:
    with LossyRelay(server.getsockname(), Weather(delay=(0.1, 0.1)), seed=1) as relay:
        sent_at = time.monotonic()
        client.sendto(b"slow", relay.address)
        server.recvfrom(2000)

        assert time.monotonic() - sent_at >= 0.1


def test_a_dispatcher_that_is_not_there_is_lost_packets_and_no_more(client: socket.socket) -> None:
    with closing(opened()) as gone:
        address = gone.getsockname()
    with LossyRelay(address, Weather(), seed=1) as relay:
        for _ in range(20):
            client.sendto(b"anybody", relay.address)
            time.sleep(0.002)
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as back:
            back.bind(address)
            for _ in range(20):
                client.sendto(b"back again", relay.address)
                time.sleep(0.002)
            back.settimeout(5.0)

            assert back.recv(2000) == b"back again"


def test_closing_ends_its_thread_and_frees_its_port(server: socket.socket) -> None:
    relay = LossyRelay(server.getsockname(), Weather(delay=(60.0, 60.0)), seed=1)
    address = relay.address
    with closing(opened()) as client:
        client.sendto(b"never", address)

    relay.close()
    relay.close()

    assert "lossy-relay" not in {thread.name for thread in threading.enumerate()}
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as again:
        again.bind(address)
