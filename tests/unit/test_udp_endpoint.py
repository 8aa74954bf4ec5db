"""Two ends of the UDP dialogue over a network that loses packets, on a clock that is not real."""

from __future__ import annotations

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from shunter.net.udp_endpoint import Batch, Seal, UdpEndpoint
from shunter.wire.udp.address_validation import FACTOR, AddressValidation
from shunter.wire.udp.keys import Secret, UdpKey
from shunter.wire.udp.methods import AddTask
from shunter.wire.udp.pace import MAX_RESENDS_AT_ONCE, RESENDS_PER_SECOND
from shunter.wire.udp.packets import Command, Confirmation, request
from shunter.wire.udp.peers import Peer, UdpAddress
from shunter.wire.udp.seals import DispatcherSealer, PeerSealer, Sealer

CLIENT, SERVER = ("client", 1), ("server", 2)
KEY = UdpKey("k", Secret(b"k" * 32))


class Call:
    def __init__(self, moment: float, callback: Callable[[], None]) -> None:
        self._moment, self.callback = moment, callback
        self.is_cancelled = False

    def when(self) -> float:
        return self._moment

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualClock:
    """Time passes only from one call to the next."""

    def __init__(self) -> None:
        self.now = 100.0
        self._calls: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> Call:
        call = Call(when, callback)
        heapq.heappush(self._calls, (when, next(self._numbers), call))
        return call

    def run(self, *, until: Callable[[], bool], seconds: float) -> None:
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end and not until():
            moment, _, call = heapq.heappop(self._calls)
            self.now = max(self.now, moment)
            if not call.is_cancelled:
                call.callback()


class Network:
    """Loses this part of all packets, and takes a millisecond for the others."""

    def __init__(self, clock: VirtualClock, *, loss: float, seed: int = 1) -> None:
        self._clock, self.loss = clock, loss
        self._random = Random(seed)
        self._ends: dict[UdpAddress, Callable[[Batch], None]] = {}
        self.sent: Counter[UdpAddress] = Counter()
        self.sent_bytes: Counter[UdpAddress] = Counter()

    def opened_at(self, own: UdpAddress) -> Callable[[Callable[[Batch], None]], NetworkSocket]:
        def opened(receive: Callable[[Batch], None]) -> NetworkSocket:
            self._ends[own] = receive
            return NetworkSocket(self, own)

        return opened

    def carry(self, packet: bytes, sender: UdpAddress, receiver: UdpAddress) -> None:
        self.sent[sender] += 1
        self.sent_bytes[receiver] += len(packet)
        if self._random.random() >= self.loss and receiver in self._ends:
            batch = [(packet, sender)]
            self._clock.call_at(self._clock.now + 0.001, lambda: self._ends[receiver](batch))


class NetworkSocket:
    is_closed = False

    def __init__(self, network: Network, own: UdpAddress) -> None:
        self._network, self._own = network, own

    def send(self, packet: bytes, address: UdpAddress, /) -> None:
        self._network.carry(packet, self._own, address)

    def close(self) -> None:
        self.is_closed = True


class Owner:
    """Counts what it does, and confirms it so many seconds later."""

    def __init__(self, clock: VirtualClock, *, takes: float = 0.0) -> None:
        self._clock, self.takes = clock, takes
        self.endpoint: UdpEndpoint[int]
        self.done: Counter[object] = Counter()
        self.answered: dict[int, float] = {}
        self.given_up: list[int] = []
        self.on_answer: Callable[[], None] = lambda: None

    def is_welcome(self, address: UdpAddress) -> bool:
        return True

    def is_remembered(self, command: Command) -> bool:
        return True

    def may_repeat(self, command: Command) -> bool:
        return False

    def take_command(self, command: Command, peer: Peer, size: int) -> None:
        assert isinstance(command.params, AddTask)
        self.done[command.params.task_id] += 1
        self._clock.call_at(
            self._clock.now + self.takes, lambda: self.endpoint.confirm(command, peer)
        )

    def take_answer(self, about: int, confirmation: Confirmation | None) -> None:
        if confirmation is None:
            self.given_up.append(about)
        else:
            self.answered[about] = self._clock.now
        self.on_answer()

    def take_fault(self, peer: Peer, reason: str, detail: str) -> None:
        pass

    def batch_taken(self) -> None:
        pass


class Scene:
    def __init__(
        self, *, loss: float, takes: float = 0.0, seed: int = 1, is_signed: bool = False
    ) -> None:
        self.clock = VirtualClock()
        self.network = Network(self.clock, loss=loss, seed=seed)
        seals: tuple[Seal | None, Seal | None] = None, None
        if is_signed:
            to = DispatcherSealer({"k": KEY}.get, "server", Secret(b"t" * 32))
            seals = self._seal(PeerSealer(KEY, "client")), self._seal(to)
        self.client = self._owner(CLIENT, 0.0, seed, seals[0])
        self.server = self._owner(SERVER, takes, seed + 1, seals[1], AddressValidation())
        self._asked = 0

    def _seal(self, sealer: Sealer) -> Seal:
        return Seal(sealer, self.clock.time)

    def _owner(
        self,
        where: UdpAddress,
        takes: float,
        seed: int,
        seal: Seal | None,
        validation: AddressValidation | None = None,
    ) -> Owner:
        owner = Owner(self.clock, takes=takes)
        owner.endpoint = UdpEndpoint(
            owner,
            self.network.opened_at(where),
            clock=self.clock,
            jitter=Random(seed).random,
            seal=seal,
            validation=validation,
        )
        return owner

    def ask(self, *, give_up_after: float, server: UdpAddress = SERVER) -> None:
        number = self._asked
        self._asked += 1
        packet = request(AddTask(task_id=number), number)
        self.client.endpoint.ask(server, number, packet, number, give_up_after=give_up_after)

    def ask_many(self, count: int, *, at_once: int, give_up_after: float) -> float:
        """Keep so many requests under way until all have ended; return how long that took."""
        began = self.clock.now

        def ask_next() -> None:
            if self._asked < count:
                self.ask(give_up_after=give_up_after)

        self.client.on_answer = ask_next
        for _ in range(at_once):
            ask_next()

        def all_ended() -> bool:
            return len(self.client.answered) + len(self.client.given_up) == count

        self.clock.run(until=all_ended, seconds=1000.0)
        assert all_ended()
        return self.clock.now - began


@pytest.mark.parametrize("takes", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_every_request_is_done_once_and_confirmed_though_packets_get_lost(
    seed: int, takes: float
) -> None:
    scene = Scene(loss=0.3, takes=takes, seed=seed)

    scene.ask_many(3000, at_once=256, give_up_after=10.0)

    assert scene.client.given_up == []
    assert scene.server.done == Counter(range(3000))


@pytest.mark.parametrize("seed", range(4))
def test_so_is_every_signed_request(seed: int) -> None:
    scene = Scene(loss=0.3, takes=0.01, seed=seed, is_signed=True)

    scene.ask_many(500, at_once=64, give_up_after=10.0)

    assert scene.client.given_up == []
    assert scene.server.done == Counter(range(500))


def test_the_first_signed_request_costs_one_more_round_trip_and_no_pause() -> None:
    scene = Scene(loss=0.0, is_signed=True)

    assert scene.ask_many(1, at_once=1, give_up_after=10.0) < 0.01


# ---- addresses that may be forged


class Stranger:
    """An address that packets come from; what is sent there is counted, and confirmed or not."""

    ADDRESS: UdpAddress = ("203.0.113.7", 9)

    def __init__(self) -> None:
        self.scene = Scene(loss=0.0)
        self.endpoint, self.came = self.scene.server.endpoint, 0

    def says(self, packet: bytes) -> None:
        self.came += len(packet)
        self.endpoint.receive([(packet, self.ADDRESS)])

    def adds_a_task(self, number: int = 1) -> None:
        self.says(request(AddTask(task_id=number), number))

    def is_asked(self, number: int, *, size: int = 100, give_up_after: float = 15.0) -> None:
        packet = request(AddTask(task_id="x" * (size - 80)), number)
        self.endpoint.ask(self.ADDRESS, number, packet, number, give_up_after=give_up_after)

    def waits(self, seconds: float) -> None:
        self.scene.clock.run(until=lambda: False, seconds=seconds)

    @property
    def got(self) -> int:
        return self.scene.network.sent_bytes[self.ADDRESS]


def test_an_address_that_never_confirms_gets_three_times_what_came_from_it_at_most() -> None:
    stranger = Stranger()
    stranger.adds_a_task()
    for number in range(20):
        stranger.is_asked(number)
        stranger.waits(15.0)
        assert stranger.got <= FACTOR * stranger.came

    assert stranger.got > stranger.came, "something was sent at all"


def test_what_had_no_room_is_sent_when_the_peer_has_said_something_again() -> None:
    stranger = Stranger()
    stranger.adds_a_task()
    stranger.is_asked(77, size=600)
    stranger.waits(3.0)
    before = stranger.got
    assert before < 600

    for number in range(2, 6):
        stranger.adds_a_task(number)
    stranger.waits(2.0)

    assert stranger.got - before > 600
    stranger.says(b'{"packet_type": 2, "transmission_id": 77}')
    assert stranger.scene.server.answered.keys() == {77}


def test_an_address_that_has_confirmed_a_request_has_no_limit_until_it_falls_silent() -> None:
    stranger = Stranger()
    stranger.adds_a_task()
    stranger.is_asked(77)
    stranger.says(b'{"packet_type": 2, "transmission_id": 77}')

    stranger.is_asked(78, size=1000)
    stranger.waits(10.0)
    assert stranger.got > 5000
    stranger.waits(10.0)
    assert stranger.scene.server.given_up == [78]

    before = stranger.got
    stranger.is_asked(79, size=1000)
    stranger.waits(10.0)
    assert stranger.got == before


def test_a_guess_is_no_confirmation() -> None:
    stranger = Stranger()
    stranger.is_asked(77, size=1000)
    for guess in (76, 78, "77"):
        stranger.says(b'{"packet_type": 2, "transmission_id": %b}' % json.dumps(guess).encode())

    stranger.waits(10.0)

    assert stranger.got <= FACTOR * stranger.came


@pytest.mark.parametrize(("at_once", "count"), [(1, 1000), (32, 10_000)])
def test_with_three_lost_packets_in_ten_a_request_takes_a_tenth_of_a_second(
    at_once: int, count: int
) -> None:
    scene = Scene(loss=0.3, takes=0.002)

    took = scene.ask_many(count, at_once=at_once, give_up_after=5.0)

    assert scene.client.given_up == []
    assert took * at_once / count < 0.13


def test_without_loss_nothing_is_sent_twice_though_answers_take_long() -> None:
    scene = Scene(loss=0.0, takes=0.15)

    scene.ask_many(1000, at_once=10, give_up_after=60.0)

    assert scene.network.sent[CLIENT] == 1000


def test_a_peer_that_answers_late_is_soon_not_sent_everything_twice() -> None:
    scene = Scene(loss=0.0, takes=0.35)

    scene.ask_many(300, at_once=5, give_up_after=60.0)
    before = scene.network.sent[CLIENT]
    scene.ask_many(600, at_once=5, give_up_after=60.0)

    assert scene.network.sent[CLIENT] - before < 310


def test_a_peer_that_is_gone_is_sent_a_bounded_number_of_packets() -> None:
    scene = Scene(loss=0.0)
    for _ in range(2000):
        scene.ask(give_up_after=15.0, server=("nobody", 3))

    scene.clock.run(until=lambda: len(scene.client.given_up) == 2000, seconds=20.0)

    assert len(scene.client.given_up) == 2000
    assert scene.clock.now == pytest.approx(115.0)
    resent = scene.network.sent[CLIENT] - 2000
    assert resent <= MAX_RESENDS_AT_ONCE + 15.0 * RESENDS_PER_SECOND + 1
    assert len(scene.client.endpoint) == 0


def test_after_answers_that_came_late_a_lost_packet_costs_no_more_than_a_second() -> None:
    scene = Scene(loss=0.0, takes=1.5)
    scene.ask_many(20, at_once=5, give_up_after=60.0)
    scene.server.takes = 0.0
    scene.network.loss = 1.0
    scene.ask(give_up_after=60.0)
    scene.clock.run(until=lambda: False, seconds=3.0)
    before = scene.clock.now

    scene.network.loss = 0.0
    scene.clock.run(until=lambda: len(scene.client.answered) == 21, seconds=60.0)

    assert scene.clock.now - before < 1.3
