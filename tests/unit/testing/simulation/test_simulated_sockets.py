"""The simulated ROUTER and DEALER do what ZeroMQ's do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from shunter.testing.simulation.links import Wires
from shunter.testing.simulation.loop import ProcessLoop, VirtualTime
from shunter.testing.simulation.sockets import DealerSocket, RouterSocket, ZmqNetwork

ADDRESS = "tcp://d1:5560"

Batch = list[list[bytes]]


class Net:
    def __init__(self) -> None:
        self.time = VirtualTime(max_steps=100_000)
        self.network = ZmqNetwork(Wires(self.time, Random(1)))
        self.dispatcher = ProcessLoop(self.time, "d1")
        self.worker = ProcessLoop(self.time, "w1")
        self.at_router: Batch = []
        self.at_dealer: Batch = []

    def bind(self) -> RouterSocket:
        receive: Callable[[Batch], None] = self.at_router.extend
        return self.network.bind(self.dispatcher, ADDRESS, receive, high_water_mark=3)

    def connect(self, identity: bytes = b"me") -> DealerSocket:
        return self.network.connect(self.worker, ADDRESS, self.at_dealer.extend, identity=identity)

    def pass_time(self, seconds: float) -> None:
        deadline = self.time.now + seconds
        self.time.at(deadline, lambda: None)
        self.time.run(until=lambda: self.time.now >= deadline, deadline=deadline)


@pytest.fixture
def net() -> Net:
    return Net()


def test_messages_go_both_ways_in_order(net: Net) -> None:
    router, dealer = net.bind(), net.connect()
    for number in b"123":
        dealer.send([bytes([number])])
    net.pass_time(1)
    router.send([b"me", b"answer"])
    net.pass_time(1)

    assert net.at_router == [[b"me", b"1"], [b"me", b"2"], [b"me", b"3"]]
    assert net.at_dealer == [[b"answer"]]


def test_a_router_refuses_to_send_to_who_is_not_there(net: Net) -> None:
    router = net.bind()

    assert not router.send([b"nobody", b"hello"])


def test_a_router_refuses_what_a_slow_peer_does_not_take(net: Net) -> None:
    router = net.bind()
    net.connect()
    net.pass_time(1)
    net.network.wires.cut("d1", "w1")

    assert [router.send([b"me", b"x"]) for _ in range(5)] == [True, True, True, False, False]


def test_a_dealer_keeps_what_it_sends_before_anyone_listens(net: Net) -> None:
    net.connect().send([b"early"])
    net.pass_time(2)
    net.bind()
    net.pass_time(2)

    assert net.at_router == [[b"me", b"early"]]


def test_what_is_on_its_way_over_a_cut_wire_arrives_when_it_heals(net: Net) -> None:
    net.bind()
    dealer = net.connect()
    net.pass_time(1)
    net.network.wires.cut("w1", "d1")
    dealer.send([b"stuck"])
    net.pass_time(5)
    assert net.at_router == []
    net.network.wires.heal("w1", "d1")
    net.pass_time(1)

    assert net.at_router == [[b"me", b"stuck"]]


def test_what_is_on_its_way_when_a_connection_breaks_is_lost_and_the_dealer_comes_back(
    net: Net,
) -> None:
    net.bind()
    dealer = net.connect()
    net.pass_time(1)
    dealer.send([b"lost"])
    net.network.reset("d1", "w1")
    dealer.send([b"kept"])
    net.pass_time(1)

    assert net.at_router == [[b"me", b"kept"]]


def test_who_dies_is_gone_for_the_router(net: Net) -> None:
    router = net.bind()
    net.connect()
    net.pass_time(1)
    net.worker.end()
    net.network.close_all_of(net.worker)
    net.pass_time(1)

    assert not router.send([b"me", b"hello"])


def test_a_newcomer_takes_over_an_identity(net: Net) -> None:
    router = net.bind()
    net.connect()
    net.pass_time(1)
    newcomer = ProcessLoop(net.time, "w2")
    taken: Batch = []
    net.network.connect(newcomer, ADDRESS, taken.extend, identity=b"me")
    net.pass_time(0.01)
    router.send([b"me", b"hello"])
    net.pass_time(0.01)

    assert (taken, net.at_dealer) == ([[b"hello"]], [])


def test_a_slow_wire_takes_longer_for_more_bytes(net: Net) -> None:
    net.bind()
    dealer = net.connect()
    net.pass_time(1)
    net.network.wires.between("w1", "d1").bytes_per_second = 1000
    dealer.send([bytes(3000)])
    net.pass_time(2.9)
    assert net.at_router == []
    net.pass_time(0.2)

    assert len(net.at_router) == 1
