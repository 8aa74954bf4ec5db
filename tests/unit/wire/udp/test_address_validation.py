"""Before an address has proved itself it is sent three times what came from it, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.udp.address_validation import (
    FACTOR,
    LOOPBACK_CREDIT,
    AddressValidation,
    is_loopback,
)
from shunter.wire.udp.peers import UdpAddress

FAR: list[UdpAddress] = [("203.0.113.7", 9), ("203.0.113.7", 10), ("2001:db8::1", 9)]
NEAR: UdpAddress = ("127.0.0.1", 9)

sizes = st.integers(0, 65_535)
events = st.lists(
    st.tuples(st.sampled_from(["heard", "first", "repeat"]), st.sampled_from(FAR), sizes),
    max_size=60,
)


@given(events)
def test_whatever_happens_an_unproven_address_gets_three_times_what_it_sent_at_most(
    happened: list[tuple[str, UdpAddress, int]],
) -> None:
    validation = AddressValidation()
    came, went = dict.fromkeys(FAR, 0), dict.fromkeys(FAR, 0)
    for what, address, size in happened:
        if what == "heard":
            validation.heard(address, size)
            came[address] += size
        elif validation.may_send(address, size, is_repeat=what == "repeat"):
            went[address] += size
        assert went[address] <= FACTOR * came[address]


@given(events, st.integers(1, 2))
def test_that_holds_however_few_addresses_are_remembered(
    happened: list[tuple[str, UdpAddress, int]], most: int
) -> None:
    validation = AddressValidation(max_addresses=most)
    came, went = dict.fromkeys(FAR, 0), dict.fromkeys(FAR, 0)
    for what, address, size in happened:
        if what == "heard":
            validation.heard(address, size)
            came[address] += size
        elif validation.may_send(address, size, is_repeat=what == "repeat"):
            went[address] += size
        assert went[address] <= FACTOR * came[address]
        assert len(validation) <= most


@given(st.lists(sizes, min_size=1))
def test_what_came_may_be_spent_to_the_last_byte(came: list[int]) -> None:
    validation = AddressValidation()
    for size in came:
        validation.heard(FAR[0], size)

    assert validation.may_send(FAR[0], FACTOR * sum(came), is_repeat=True)
    assert not validation.may_send(FAR[0], 1, is_repeat=False)


def test_one_address_does_not_pay_for_another() -> None:
    validation = AddressValidation()
    validation.heard(FAR[0], 1000)

    assert not validation.may_send(FAR[1], 1, is_repeat=False)


def test_an_address_that_has_proved_itself_has_no_limit_until_it_is_doubted() -> None:
    validation = AddressValidation()
    validation.heard(FAR[0], 10)
    validation.proved(FAR[0])
    assert all(validation.may_send(FAR[0], 1200, is_repeat=True) for _ in range(100))

    validation.doubted(FAR[0])

    assert not validation.may_send(FAR[0], 1, is_repeat=False)
    validation.heard(FAR[0], 10)
    assert validation.may_send(FAR[0], 30, is_repeat=True)


def test_forged_addresses_do_not_push_out_one_that_has_proved_itself() -> None:
    validation = AddressValidation(max_addresses=100)
    validation.heard(FAR[0], 1)
    validation.proved(FAR[0])
    for number in range(1000):
        validation.heard((f"203.0.113.{number % 250}", number), 1200)

    assert validation.is_proven(FAR[0])
    assert len(validation) <= 101


def test_on_this_host_answers_and_first_copies_go_out_and_repeats_are_limited() -> None:
    validation = AddressValidation()
    validation.heard(NEAR, 75)

    assert validation.may_send(NEAR, LOOPBACK_CREDIT, is_repeat=True)
    assert not validation.may_send(NEAR, FACTOR * 75 + 1, is_repeat=True)
    assert all(validation.may_send(NEAR, 1200, is_repeat=False) for _ in range(10))
    assert validation.may_send(NEAR, FACTOR * 75, is_repeat=True)


def test_on_this_host_one_large_packet_may_be_repeated_without_a_word() -> None:
    validation = AddressValidation()
    validation.heard(NEAR, 75)

    went = sum(150 for _ in range(100) if validation.may_send(NEAR, 150, is_repeat=True))

    assert LOOPBACK_CREDIT <= went <= LOOPBACK_CREDIT + FACTOR * 75


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("0.0.0.0", False), ("::", False), ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False), ("localhost", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_known_by_its_number(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
