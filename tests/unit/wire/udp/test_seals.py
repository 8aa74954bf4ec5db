"""Whom a signed packet is for: one dispatcher, in one life of it, from one address."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.udp.keys import Secret, UdpKey
from shunter.wire.udp.peers import KeyedPeer, UdpAddress
from shunter.wire.udp.seals import DispatcherSealer, Misaddressed, PeerSealer
from shunter.wire.udp.signatures import EnvelopeFault, EnvelopeReason

R = EnvelopeReason
NOW = 1_598_326_709.621
RING = {name: UdpKey(name, Secret(name.encode() * 16)) for name in ("client", "worker")}
HOME: UdpAddress = ("10.0.0.1", 9)
ELSEWHERE: UdpAddress = ("10.0.0.1", 10)
DISPATCHER: UdpAddress = ("10.0.0.9", 5555)
PACKET = b'{"packet_type":0}'


def dispatcher(name: str = "aa", token_secret: bytes = b"t" * 32) -> DispatcherSealer:
    return DispatcherSealer(RING.get, name, Secret(token_secret))


def peer(key: str = "client", name: str = "c-1") -> PeerSealer:
    return PeerSealer(RING[key], name)


def sealed(by: PeerSealer, packet: bytes = PACKET) -> bytes:
    found = by.sealed(packet, DISPATCHER, now=NOW)
    assert found is not None
    return found


def hello_of(by: DispatcherSealer, envelope: bytes, address: UdpAddress = HOME) -> bytes:
    with pytest.raises(Misaddressed) as caught:
        by.opened(envelope, address, now=NOW)
    return caught.value.hello


def acquainted(to: DispatcherSealer, **about: Any) -> PeerSealer:
    """Return a peer at HOME that knows how to address the dispatcher."""
    made = peer(**about)
    assert made.opened(hello_of(to, sealed(made)), DISPATCHER, now=NOW).is_renamed
    return made


def test_a_peer_is_told_whom_to_address_and_then_taken() -> None:
    to = dispatcher()
    by = acquainted(to)

    opened = to.opened(sealed(by), HOME, now=NOW)

    assert opened.peer == KeyedPeer(*HOME, "client", "c-1")
    assert (opened.body, opened.is_repeated, opened.is_proof) == (PACKET, False, True)


def test_a_dispatcher_s_packet_is_taken_by_the_one_peer_that_it_is_for() -> None:
    to = dispatcher()
    by, other, twin = acquainted(to), acquainted(to, name="c-2"), acquainted(to, key="worker")

    answer = to.sealed(b"{}", KeyedPeer(*HOME, "client", "c-1"), now=NOW)

    assert answer is not None
    for wrong, reason in ((other, R.WRONG_RECEIVER), (twin, R.UNKNOWN_KEY)):
        with pytest.raises(EnvelopeFault) as caught:
            wrong.opened(answer, DISPATCHER, now=NOW)
        assert caught.value.reason is reason
    opened = by.opened(answer, DISPATCHER, now=NOW)
    assert (opened.body, opened.peer, opened.is_renamed) == (b"{}", DISPATCHER, False)


def test_what_is_shown_first_from_elsewhere_is_not_taken_and_does_not_spoil_the_owner_s() -> None:
    to = dispatcher()
    envelope = sealed(acquainted(to))

    for _ in range(3):
        hello_of(to, envelope, ELSEWHERE)
    opened = to.opened(envelope, HOME, now=NOW)

    assert (opened.is_repeated, opened.is_proof) == (False, True)


def test_a_repetition_from_the_same_address_is_known_and_proves_nothing() -> None:
    to = dispatcher()
    envelope = sealed(acquainted(to))
    to.opened(envelope, HOME, now=NOW)

    opened = to.opened(envelope, HOME, now=NOW)

    assert (opened.is_repeated, opened.is_proof) == (True, False)


@pytest.mark.parametrize(
    "other", [dispatcher("bb"), dispatcher("aa", b"u" * 32)], ids=["another", "restarted"]
)
def test_what_was_for_another_dispatcher_or_an_earlier_life_is_not_taken(
    other: DispatcherSealer,
) -> None:
    hello_of(other, sealed(acquainted(dispatcher())))


def test_a_peer_follows_a_dispatcher_that_was_restarted() -> None:
    by, restarted = acquainted(dispatcher("aa")), dispatcher("bb", b"u" * 32)

    opened = by.opened(hello_of(restarted, sealed(by)), DISPATCHER, now=NOW + 1)

    assert opened.is_renamed
    assert restarted.opened(sealed(by), HOME, now=NOW).is_proof


def test_an_old_hello_shown_again_leads_nobody_back() -> None:
    old, new = dispatcher("aa"), dispatcher("bb", b"u" * 32)
    by = peer()
    early = hello_of(old, sealed(by))
    by.opened(early, DISPATCHER, now=NOW)
    by.opened(hello_of(new, sealed(by)), DISPATCHER, now=NOW)

    assert not by.opened(early, DISPATCHER, now=NOW).is_renamed

    assert new.opened(sealed(by), HOME, now=NOW).is_proof


def test_no_hello_follows_a_hello_nor_a_packet_of_the_dispatcher_s_own() -> None:
    one, other = dispatcher("aa"), dispatcher("bb")
    hello = hello_of(one, sealed(peer()))
    answer = one.sealed(b"{}", KeyedPeer(*HOME, "client", "c-1"), now=NOW)

    assert answer is not None
    for to, envelope in ((other, hello), (one, hello), (one, answer)):
        with pytest.raises(EnvelopeFault) as caught:
            to.opened(envelope, ELSEWHERE, now=NOW)
        assert caught.value.reason is R.WRONG_RECEIVER


def test_a_hello_is_about_as_long_as_what_it_answers() -> None:
    envelope = sealed(peer())

    assert len(hello_of(dispatcher("a" * 16), envelope)) < 1.5 * len(envelope)


def test_nothing_is_sent_with_a_key_that_was_revoked_nor_taken() -> None:
    ring = dict(RING)
    to = DispatcherSealer(ring.get, "aa", Secret(b"t" * 32))
    by = acquainted(to)

    del ring["client"]

    assert to.sealed(b"{}", KeyedPeer(*HOME, "client", "c-1"), now=NOW) is None
    with pytest.raises(EnvelopeFault) as caught:
        to.opened(sealed(by), HOME, now=NOW)
    assert caught.value.reason is R.UNKNOWN_KEY


def test_who_has_no_key_is_told_nothing() -> None:
    stranger = PeerSealer(UdpKey("client", Secret(b"x" * 32)), "c-1")

    with pytest.raises(EnvelopeFault) as caught:
        dispatcher().opened(sealed(stranger), HOME, now=NOW)

    assert caught.value.reason is R.WRONG_MAC


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([HOME, ELSEWHERE])), max_size=40))
def test_whatever_is_shown_where_each_packet_is_new_once_and_only_at_its_own_address(
    shown: list[tuple[int, UdpAddress]],
) -> None:
    to = dispatcher()
    by = acquainted(to)
    envelopes = [sealed(by) for _ in range(5)]
    new = []
    for number, address in shown:
        try:
            opened = to.opened(envelopes[number], address, now=NOW)
        except Misaddressed:
            assert address == ELSEWHERE
            continue
        assert address == HOME
        new += [number] * (not opened.is_repeated)

    assert sorted(new) == sorted({number for number, address in shown if address == HOME})
