"""Signed packets: only what was signed with the secret is opened, and nothing is new twice."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.wire.udp.signing import (
    MIN_SECRET_BYTES,
    WINDOW_SECONDS,
    EnvelopeFault,
    EnvelopeReason,
    Opened,
    Opener,
    Secret,
    Signer,
)

R = EnvelopeReason
KEY = b"correct horse battery"
SECRET = Secret(KEY)
NOW = 1_598_326_709.621
PACKET = '{"method":"heartbeat","params":{"status":"ready"},"packet_type":0,"x":"é"}'.encode()


def opener(**changes: Any) -> Opener:
    return Opener(SECRET, "dispatcher-1", **({"now": NOW - 100} | changes))


def signed(packet: bytes = PACKET, now: float = NOW, secret: Secret = SECRET) -> bytes:
    return Signer(secret, "calculator-7").sign(packet, now=now)


def reason_of(envelope: bytes, now: float = NOW, by: Opener | None = None) -> EnvelopeReason:
    with pytest.raises(EnvelopeFault) as caught:
        (opener() if by is None else by).opened(envelope, now=now)
    return caught.value.reason


# ---- the way it is meant


def test_what_was_signed_is_opened() -> None:
    assert opener().opened(signed(), now=NOW + 1) == Opened("calculator-7", PACKET, False)


def test_an_envelope_can_be_made_from_its_description_alone() -> None:
    sender, number, time, body = "calculator-é", "41", str(int(NOW * 1000)), PACKET.decode()
    text = "".join(f"{len(part.encode())}:{part}," for part in (sender, number, time, body))
    mac = hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()
    envelope = {"sender": sender, "id": 41, "time": int(time), "body": body, "mac": mac}

    assert opener().opened(json.dumps(envelope).encode(), now=NOW) == Opened(sender, PACKET, False)


@given(st.text(), st.floats(NOW - 29, NOW + 29))
def test_any_text_is_opened_as_it_was_signed(text: str, signed_at: float) -> None:
    envelope = signed(text.encode(), signed_at)

    assert opener().opened(envelope, now=NOW).body == text.encode()


# ---- tampering


def test_no_byte_can_be_changed() -> None:
    envelope = signed()
    for place in range(len(envelope)):
        for flipped in (1, 32, 128):
            tampered = bytearray(envelope)
            tampered[place] ^= flipped
            assert reason_of(bytes(tampered)) in (R.UNSIGNED, R.WRONG_MAC)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sender", "calculator-8"), ("id", 2), ("time", int(NOW * 1000) + 1), ("body", "{}"),
        ("mac", "0" * 64), ("mac", "é" * 64),
    ],
)  # fmt: skip
def test_no_field_can_be_changed(field: str, value: Any) -> None:
    envelope = json.loads(signed()) | {field: value}

    assert reason_of(json.dumps(envelope).encode()) is R.WRONG_MAC


def test_parts_can_t_be_moved_from_one_field_to_the_next() -> None:
    one = SECRET.mac("ab", 1, 23, b"x")

    assert one != SECRET.mac("a", 1, 23, b"bx")
    assert one != SECRET.mac("ab", 12, 3, b"x")
    assert SECRET.mac("a,1:1,2:23", 1, 2, b"") != SECRET.mac("a", 1, 23, b"1:1,1:2,0:,")


def test_another_secret_does_not_open_it() -> None:
    assert reason_of(signed(secret=Secret(b"another secret of 27 bytes!"))) is R.WRONG_MAC


@pytest.mark.parametrize(
    "packet",
    [
        PACKET, b"", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"sender": "x"}',
        json.dumps(json.loads(signed()) | {"sender": ""}).encode(),
        json.dumps(json.loads(signed()) | {"sender": "x" * 65}).encode(),
        json.dumps(json.loads(signed()) | {"id": -1}).encode(),
        json.dumps(json.loads(signed()) | {"id": "1"}).encode(),
        json.dumps(json.loads(signed()) | {"time": NOW}).encode(),
        json.dumps(json.loads(signed()) | {"time": 10**30}).encode(),
        json.dumps(json.loads(signed()) | {"body": {}}).encode(),
        json.dumps(json.loads(signed()) | {"mac": ""}).encode(),
    ],
    ids=lambda packet: repr(packet[:20]),
)  # fmt: skip
def test_what_is_no_envelope_is_unsigned(packet: bytes) -> None:
    assert reason_of(packet) is R.UNSIGNED


def test_our_own_packets_can_t_be_sent_back_to_us() -> None:
    envelope = Signer(SECRET, "dispatcher-1").sign(PACKET, now=NOW)

    assert reason_of(envelope) is R.REFLECTED


# ---- time


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS - 0.1, WINDOW_SECONDS + 0.1, -1e6, 1e6])
def test_what_is_outside_the_window_is_refused(skew: float) -> None:
    assert reason_of(signed(now=NOW + skew)) is R.WRONG_TIME


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS + 0.1, 0.0, WINDOW_SECONDS - 0.1])
def test_clocks_may_differ_within_the_window(skew: float) -> None:
    assert not opener().opened(signed(now=NOW + skew), now=NOW).is_repeated


def test_a_wrong_time_is_told_only_to_who_has_the_secret() -> None:
    envelope = signed(now=NOW - 1000, secret=Secret(b"x" * 16))

    assert reason_of(envelope) is R.WRONG_MAC


# ---- repetition


def test_an_envelope_that_comes_again_is_a_repetition_for_as_long_as_it_is_taken() -> None:
    by, envelope = opener(), signed()
    by.opened(envelope, now=NOW)

    for seconds in (0.0, 1.0, 10.0, WINDOW_SECONDS - 0.1):
        assert by.opened(envelope, now=NOW + seconds).is_repeated
    assert reason_of(envelope, NOW + WINDOW_SECONDS + 0.1, by) is R.WRONG_TIME


def test_a_packet_signed_anew_is_no_repetition_even_in_the_same_instant() -> None:
    by, signer = opener(), Signer(SECRET, "calculator-7")

    repeated = [by.opened(signer.sign(PACKET, now=NOW), now=NOW).is_repeated for _ in range(3)]

    assert repeated == [False, False, False]


def test_an_envelope_from_the_future_can_t_be_replayed_either() -> None:
    by, envelope = opener(), signed(now=NOW + 29)

    moments = [NOW + seconds / 2 for seconds in range(119)]
    fresh = [
        not by.opened(envelope, now=moment).is_repeated for moment in moments if moment < NOW + 59
    ]

    assert fresh.count(True) == 1


def test_setting_the_clock_back_lets_nothing_in_again() -> None:
    by, envelope = opener(), signed()
    by.opened(envelope, now=NOW)
    by.opened(signed(now=NOW + 100), now=NOW + 100)

    assert reason_of(envelope, NOW, by) is R.WRONG_TIME


def test_what_was_signed_before_the_receiver_was_started_is_refused() -> None:
    assert reason_of(signed(now=NOW - 1), by=opener(now=NOW)) is R.WRONG_TIME
    assert opener(now=NOW).opened(signed(now=NOW + 1), now=NOW + 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 40)), max_size=60))
def test_no_envelope_is_new_twice_whatever_the_order_and_however_small_the_memory(
    shown: list[tuple[int, float]],
) -> None:
    by, signer = opener(max_seen=3), Signer(SECRET, "calculator-7")
    envelopes = [signer.sign(PACKET, now=NOW + place * 1.5) for place in range(6)]
    new: list[int] = []
    for place, later in shown:
        try:
            opened = by.opened(envelopes[place], now=NOW + later)
        except EnvelopeFault:
            continue
        new += [place] * (not opened.is_repeated)
        assert len(by) <= 3

    assert len(new) == len(set(new))


def test_memory_is_bounded_and_what_is_forgotten_is_refused() -> None:
    by = opener(max_seen=100)
    first = signed()
    by.opened(first, now=NOW)
    signer = Signer(SECRET, "calculator-8")
    for number in range(1000):
        by.opened(signer.sign(PACKET, now=NOW + number / 50), now=NOW + number / 50)
        assert len(by) <= 100

    assert reason_of(first, NOW + 20, by) is R.WRONG_TIME


def test_what_is_older_than_the_window_is_forgotten() -> None:
    by, signer = opener(), Signer(SECRET, "calculator-7")
    for number in range(1000):
        by.opened(signer.sign(PACKET, now=NOW + number), now=NOW + number)

    assert len(by) <= WINDOW_SECONDS + 2


def test_strangers_can_t_fill_the_memory() -> None:
    by, stranger = opener(), Signer(Secret(b"x" * 16), "stranger")
    for _ in range(100):
        with pytest.raises(EnvelopeFault):
            by.opened(stranger.sign(PACKET, now=NOW), now=NOW)

    assert len(by) == 0


# ---- the secret


@pytest.mark.parametrize("text", [b"", b"\n", b"x" * (MIN_SECRET_BYTES - 1) + b"\n"])
def test_a_short_secret_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="use at least 16"):
        Secret(text)


def test_the_line_break_at_the_end_of_a_file_does_not_count() -> None:
    envelope = signed(secret=Secret(KEY + b"\r\n"))

    assert opener().opened(envelope, now=NOW).body == PACKET


def test_a_secret_is_not_shown() -> None:
    assert "horse" not in f"{SECRET!r} {SECRET}"


@pytest.mark.parametrize("sender", ["", "x" * 65])
def test_a_sender_has_a_name_of_a_bounded_length(sender: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 characters"):
        Signer(SECRET, sender)
