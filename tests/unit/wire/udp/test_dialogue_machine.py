"""Two peers over a network that does what it likes: each request is done once, and confirmed.

The network keeps one promise, as real ones do: no packet wanders for longer than
WANDERING_SECONDS. Until then it may deliver any packet any number of times, in any order.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from long_runs import examples
from shunter.wire.udp.methods import AddTask
from shunter.wire.udp.packets import Command, Confirmation, answer, parse, request
from shunter.wire.udp.transmissions import (
    REMEMBERED_SECONDS,
    RESENT_SECONDS,
    WANDERING_SECONDS,
    GaveUp,
    Heard,
    Incoming,
    Outgoing,
    Resend,
)

ASKER = ("asker", 1)
DOER = ("doer", 2)
ENOUGH = 10.0
"""A request that has so many seconds left on a fair network is confirmed."""


class Sent(Struct, frozen=True):
    packet: bytes
    sent_at: float
    is_request: bool


class Dialogue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.jitter = 0.0
        self.outgoing: Outgoing[int] = Outgoing(jitter=lambda: self.jitter)
        self.incoming = Incoming()
        self.network: list[Sent] = []
        self.at_work: list[Command] = []
        self.begun = 0
        self.done: Counter[int] = Counter()
        self.confirmed: Counter[int] = Counter()
        self.given_up: Counter[int] = Counter()

    # ---- what the peers do

    @rule(jitter=st.floats(0, 1, exclude_max=True), number=st.integers(1, 3))
    def the_asker_asks(self, jitter: float, number: int) -> None:
        self.jitter = jitter
        for _ in range(number):
            self.begun += 1
            packet = request(AddTask(task_id=self.begun), self.begun)
            self.outgoing.begin(DOER, self.begun, packet, self.begun, now=self.now)
            self.send(packet, is_request=True)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 5.0, 29.0, 61.0, REMEMBERED_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.network = [
            sent for sent in self.network if sent.sent_at > self.now - WANDERING_SECONDS
        ]
        self.tick()

    @precondition(lambda self: self.at_work)
    @rule(which=st.integers(0, 5))
    def a_piece_of_work_is_done(self, which: int) -> None:
        command = self.at_work.pop(which % len(self.at_work))
        assert isinstance(command.params, AddTask)
        assert isinstance(command.params.task_id, int)
        assert command.transmission_id is not None
        self.done[command.params.task_id] += 1
        written = answer(command.transmission_id)
        self.incoming.answered(ASKER, command.key, written, now=self.now)
        self.send(written, is_request=False)

    # ---- what the network does

    @precondition(lambda self: self.network)
    @rule(which=st.integers(0, 20), is_kept=st.booleans())
    def a_packet_arrives(self, which: int, is_kept: bool) -> None:
        sent = self.network[which % len(self.network)]
        if not is_kept:
            self.network.remove(sent)
        self.deliver(sent)

    @precondition(lambda self: self.network)
    @rule(which=st.integers(0, 20))
    def a_packet_is_lost(self, which: int) -> None:
        self.network.pop(which % len(self.network))

    # ---- what holds

    @invariant()
    def nothing_is_done_twice(self) -> None:
        assert all(times == 1 for times in self.done.values())

    @invariant()
    def what_is_confirmed_has_been_done(self) -> None:
        assert self.confirmed.keys() <= self.done.keys()

    @invariant()
    def every_request_ends_once_or_is_under_way(self) -> None:
        ended = self.confirmed + self.given_up
        assert all(times == 1 for times in ended.values())
        assert len(ended) + len(self.outgoing) == self.begun

    @invariant()
    def no_more_is_remembered_than_was_asked(self) -> None:
        assert len(self.incoming) <= self.begun

    def teardown(self) -> None:
        """On a fair network all that has the time for it is confirmed, and all is forgotten."""
        due = {
            transmission.about
            for transmission in self.outgoing._under_way.values()
            if transmission.give_up_at - self.now > ENOUGH
        }
        until = self.now + RESENT_SECONDS
        while self.now < until and len(self.outgoing):
            while self.at_work:
                self.a_piece_of_work_is_done(0)
            for sent in list(self.network):
                self.network.remove(sent)
                self.deliver(sent)
            self.now += 0.25
            self.tick()
        assert due <= self.confirmed.keys()
        assert len(self.outgoing) == 0
        self.incoming.tick(now=self.now + REMEMBERED_SECONDS)
        assert (len(self.incoming), self.incoming.size) == (0, 0)
        self.nothing_is_done_twice()
        self.every_request_ends_once_or_is_under_way()

    # ---- how

    def send(self, packet: bytes, *, is_request: bool) -> None:
        self.network.append(Sent(packet, self.now, is_request))

    def tick(self) -> None:
        for effect in self.outgoing.tick(now=self.now):
            match effect:
                case Resend(packet=packet):
                    self.send(packet, is_request=True)
                case GaveUp(about=number):
                    self.given_up[number] += 1

    def deliver(self, sent: Sent) -> None:
        packet = parse(sent.packet)
        if isinstance(packet, Confirmation):
            assert not sent.is_request
            if ended := self.outgoing.confirmed(DOER, packet.transmission_id, now=self.now):
                self.confirmed[ended.about] += 1
            return
        match self.incoming.received(ASKER, packet.key, now=self.now):
            case Heard.NEW:
                self.at_work.append(packet)
            case bytes() as again:
                self.send(again, is_request=False)


TestDialogue = Dialogue.TestCase
TestDialogue.settings = settings(
    max_examples=examples(200),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_duplicate_that_comes_long_after_is_answered_and_not_done() -> None:
    dialogue = Dialogue()
    dialogue.the_asker_asks(jitter=0.0, number=1)
    (first,) = dialogue.network
    dialogue.deliver(first)
    dialogue.a_piece_of_work_is_done(0)
    dialogue.now += REMEMBERED_SECONDS - 1
    dialogue.network.clear()

    dialogue.deliver(first)

    assert [sent.packet for sent in dialogue.network] == [answer(1)]
    assert dialogue.done == {1: 1}


def test_one_that_comes_while_the_first_is_being_worked_on_is_answered_once_when_it_is_done() -> (
    None
):
    dialogue = Dialogue()
    dialogue.the_asker_asks(jitter=0.0, number=1)
    (first,) = dialogue.network
    for _ in range(3):
        dialogue.deliver(first)
    dialogue.network.clear()

    dialogue.a_piece_of_work_is_done(0)

    assert [sent.packet for sent in dialogue.network] == [answer(1)]
    assert dialogue.at_work == []
