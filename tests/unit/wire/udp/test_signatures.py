"""Signed packets: only what was signed with a live key is taken, and nothing is new twice."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.udp.keys import MIN_SECRET_BYTES, Secret, UdpKey, shared_by_all
from shunter.wire.udp.signatures import (
    WINDOW_SECONDS,
    EnvelopeFault,
    EnvelopeMemory,
    EnvelopeReason,
    SignedEnvelope,
    Signer,
    verified,
)

R = EnvelopeReason
RAW = b"correct horse battery"
KEY = UdpKey("lab", Secret(RAW))
NOW = 1_598_326_709.621
PACKET = '{"method":"heartbeat","params":{"status":"ready"},"packet_type":0,"x":"é"}'.encode()


def keys(name: str) -> UdpKey | None:
    return KEY if name == "lab" else None


def signed(packet: bytes = PACKET, now: float = NOW, key: UdpKey = KEY) -> bytes:
    return Signer().sign(packet, key, sender="calc-7", receiver="d.1", now=now)


def envelope(now: float = NOW, signer: Signer | None = None) -> SignedEnvelope:
    raw = (signer or Signer()).sign(PACKET, KEY, sender="calc-7", receiver="d.1", now=now)
    return verified(raw, keys)[0]


def reason_of(raw: bytes) -> EnvelopeReason:
    with pytest.raises(EnvelopeFault) as caught:
        verified(raw, keys)
    return caught.value.reason


def is_too_old(memory: EnvelopeMemory, found: SignedEnvelope, now: float) -> bool:
    with pytest.raises(EnvelopeFault) as caught:
        memory.is_repeated(found, now=now)
    return caught.value.reason is R.WRONG_TIME


# ---- the way it is meant


def test_what_was_signed_is_verified() -> None:
    found, key = verified(signed(), keys)

    assert (found.body.encode(), found.sender, found.receiver) == (PACKET, "calc-7", "d.1")
    assert key is KEY


@pytest.mark.parametrize("name", ["lab", ""])
def test_an_envelope_can_be_made_from_its_description_alone(name: str) -> None:
    parts = [name, "calc-7", "d.1", "41", str(int(NOW * 1000)), PACKET.decode()]
    text = "".join(f"{len(part.encode())}:{part}," for part in parts)
    mac = hmac.new(RAW, text.encode(), hashlib.sha256).hexdigest()
    raw: dict[str, Any] = {
        "sender": "calc-7", "receiver": "d.1", "id": 41, "time": int(NOW * 1000),
        "body": PACKET.decode(), "mac": mac,
    }  # fmt: skip
    if name:
        raw["key"] = name

    known = keys if name else shared_by_all(Secret(RAW))
    assert verified(json.dumps(raw).encode(), known)[0].body.encode() == PACKET


@given(st.text(), st.floats(NOW - 29, NOW + 29))
def test_any_text_is_found_as_it_was_signed(text: str, signed_at: float) -> None:
    assert verified(signed(text.encode(), signed_at), keys)[0].body == text


# ---- tampering


def test_no_byte_can_be_changed() -> None:
    raw = signed()
    for place in range(len(raw)):
        for flipped in (1, 32, 128):
            tampered = bytearray(raw)
            tampered[place] ^= flipped
            assert reason_of(bytes(tampered)) in (R.UNSIGNED, R.WRONG_MAC, R.UNKNOWN_KEY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sender", "calc-8"), ("receiver", "d.2"), ("receiver", ""), ("id", 2), ("body", "{}"),
        ("time", int(NOW * 1000) + 1), ("mac", "0" * 64), ("mac", "é" * 64),
    ],
)  # fmt: skip
def test_no_field_can_be_changed(field: str, value: Any) -> None:
    assert reason_of(json.dumps(json.loads(signed()) | {field: value}).encode()) is R.WRONG_MAC


def test_parts_can_t_be_moved_from_one_field_to_the_next() -> None:
    mac = Secret(RAW).mac

    assert mac(b"ab", b"1") != mac(b"a", b"b1")
    assert mac(b"a", b"1") != mac(b"a,1:1")
    assert mac(b"a", b"") != mac(b"a")


def test_another_secret_under_the_same_name_is_refused() -> None:
    other = UdpKey("lab", Secret(b"another secret of 27 bytes!"))

    assert reason_of(signed(key=other)) is R.WRONG_MAC


def test_a_key_that_is_not_known_is_refused() -> None:
    assert reason_of(signed(key=UdpKey("revoked", Secret(RAW)))) is R.UNKNOWN_KEY
    assert reason_of(signed(key=UdpKey("", Secret(RAW)))) is R.UNKNOWN_KEY


@pytest.mark.parametrize(
    "packet",
    [
        PACKET, b"", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"sender": "x"}',
        *(
            json.dumps(json.loads(signed()) | {field: value}).encode()
            for field, value in [
                ("sender", ""), ("sender", "x" * 65), ("sender", "a/b"), ("sender", "a b"),
                ("sender", "a\n"), ("key", "x" * 65), ("key", 5), ("receiver", "x" * 65),
                ("id", -1), ("id", "1"), ("time", NOW), ("time", 10**30), ("body", {}), ("mac", ""),
            ]
        ),
    ],
    ids=lambda packet: repr(packet[:20]),
)  # fmt: skip
def test_what_is_no_envelope_is_unsigned(packet: bytes) -> None:
    assert reason_of(packet) is R.UNSIGNED


# ---- time


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS - 0.1, WINDOW_SECONDS + 0.1, -1e6, 1e6])
def test_what_is_outside_the_window_is_refused(skew: float) -> None:
    assert is_too_old(EnvelopeMemory(), envelope(NOW + skew), NOW)


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS + 0.1, 0.0, WINDOW_SECONDS - 0.1])
def test_clocks_may_differ_within_the_window(skew: float) -> None:
    assert not EnvelopeMemory().is_repeated(envelope(NOW + skew), now=NOW)


# ---- repetition


def test_an_envelope_that_comes_again_is_a_repetition_for_as_long_as_it_is_taken() -> None:
    memory, found = EnvelopeMemory(), envelope()
    memory.is_repeated(found, now=NOW)

    for seconds in (0.0, 1.0, 10.0, WINDOW_SECONDS - 0.1):
        assert memory.is_repeated(found, now=NOW + seconds)
    assert is_too_old(memory, found, NOW + WINDOW_SECONDS + 0.1)


def test_a_packet_signed_anew_is_no_repetition_even_in_the_same_instant() -> None:
    memory, signer = EnvelopeMemory(), Signer()

    repeated = [memory.is_repeated(envelope(NOW, signer), now=NOW) for _ in range(3)]

    assert repeated == [False, False, False]


def test_an_envelope_from_the_future_can_t_be_replayed_either() -> None:
    memory, found = EnvelopeMemory(), envelope(NOW + 29)

    moments = [NOW + seconds / 2 for seconds in range(119)]
    fresh = [not memory.is_repeated(found, now=moment) for moment in moments if moment < NOW + 59]

    assert fresh.count(True) == 1


def test_setting_the_clock_back_lets_nothing_in_again() -> None:
    memory, found = EnvelopeMemory(), envelope()
    memory.is_repeated(found, now=NOW)
    memory.is_repeated(envelope(NOW + 100), now=NOW + 100)

    assert is_too_old(memory, found, NOW)


def test_looking_at_the_time_remembers_nothing() -> None:
    memory, found = EnvelopeMemory(), envelope()

    memory.check_time(found, now=NOW)

    assert len(memory) == 0
    assert not memory.is_repeated(found, now=NOW)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 40)), max_size=60))
def test_no_envelope_is_new_twice_whatever_the_order_and_however_small_the_memory(
    shown: list[tuple[int, float]],
) -> None:
    memory, signer = EnvelopeMemory(max_seen=3), Signer()
    envelopes = [envelope(NOW + place * 1.5, signer) for place in range(6)]
    new: list[int] = []
    for place, later in shown:
        try:
            is_repeated = memory.is_repeated(envelopes[place], now=NOW + later)
        except EnvelopeFault:
            continue
        new += [place] * (not is_repeated)
        assert len(memory) <= 3

    assert len(new) == len(set(new))


def test_memory_is_bounded_and_what_is_forgotten_is_refused() -> None:
    memory, first, signer = EnvelopeMemory(max_seen=100), envelope(), Signer()
    memory.is_repeated(first, now=NOW)
    for number in range(1000):
        memory.is_repeated(envelope(NOW + number / 50, signer), now=NOW + number / 50)
        assert len(memory) <= 100

    assert is_too_old(memory, first, NOW + 20)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    memory, signer = EnvelopeMemory(), Signer()
    for number in range(1000):
        memory.is_repeated(envelope(NOW + number, signer), now=NOW + number)

    assert len(memory) <= WINDOW_SECONDS + 2


# ---- keys


@pytest.mark.parametrize("text", [b"", b"\n", b"x" * (MIN_SECRET_BYTES - 1) + b"\n"])
def test_a_short_secret_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="use at least 16"):
        Secret.of_file(text)


def test_the_line_break_at_the_end_counts_in_a_key_and_not_in_a_file() -> None:
    assert Secret.of_file(RAW + b"\r\n").mac(b"") == Secret(RAW).mac(b"")
    assert Secret(RAW + b"\n").mac(b"") != Secret(RAW).mac(b"")


def test_a_secret_is_not_shown() -> None:
    assert "horse" not in f"{KEY!r} {KEY}"


def test_a_secret_that_all_share_is_a_key_without_a_name_that_may_do_everything() -> None:
    known = shared_by_all(Secret(RAW))
    key = known("")

    assert known("lab") is None
    assert key is not None
    assert key.may_add
    assert key.may_perform_all(["any", "thing"])


@pytest.mark.parametrize(
    ("may_perform", "types", "asked", "expected"),
    [
        (True, None, ["a"], True), (True, {"a", "b"}, ["a"], True),
        (True, {"a"}, ["a", "b"], False), (True, set(), ["a"], False),
        (False, None, ["a"], False), (False, {"a"}, [], False),
    ],
)  # fmt: skip
def test_a_key_says_which_types_may_be_performed_with_it(
    may_perform: bool, types: set[str] | None, asked: list[str], expected: bool
) -> None:
    allowed = None if types is None else frozenset(types)
    key = UdpKey("w", Secret(RAW), may_perform=may_perform, types=allowed)

    assert key.may_perform_all(asked) is expected
