"""Signed packets: who sent one, to whom, and that nobody changed it since.

    {"key": "lab-7", "sender": "calc-5e1f", "receiver": "8d0c61.29ab40", "id": 41,
     "time": 1598326709621, "body": "{...}", "mac": "5f0c..."}

`body` is the packet, as text. `key` names the key that signs, and is left out for a secret that
all share. `sender` is a name that no other peer has, `id` a number that the sender uses once: it
counts what it signs. `time` is in whole milliseconds since 1970. `mac` is the HMAC-SHA256, in
hexadecimal, of the other six in the order key, sender, receiver, id, time, body, each written in
UTF-8 as its length in bytes, a colon, itself and a comma (a netstring), so that no two envelopes
give the same text: `5:lab-7,9:calc-5e1f,13:8d0c61.29ab40,2:41,13:159832670...`

**Time.** An envelope is taken within the window (30 s) before and after the receiver's clock. Peers
whose clocks differ by more can't talk; that is what keeps the memory of what was seen finite.

**Repetition.** An envelope that has been seen within the window is a repetition. It may be a
replay, or the network's double, or an honest resend: nothing tells them apart, so nothing may be
*done* because of one. A packet that wants no answer is then dropped. A request that `Incoming`
knows from this peer is answered again. Our own peers sign anew what they send again.

**Memory.** Only envelopes that were signed with a key are remembered, by the second that they
claim to be from. Where they are too many, the oldest second is forgotten and everything from then
or earlier is refused: the window gets shorter, a replay never gets in.

It is no encryption: bodies can be read on the way. Who receives is decided in `seals.py`.
Pure: `now` is an argument. Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from shunter.errors import ProtocolError
from shunter.wire.udp.keys import UdpKey, UdpKeys

WINDOW_SECONDS = 30.0
MAX_SEEN = 1_000_000
MAX_NAME_LENGTH = 64

SenderName = Annotated[str, Meta(pattern=rf"\A[A-Za-z0-9_.-]{{1,{MAX_NAME_LENGTH}}}\Z")]


class EnvelopeReason(StrEnum):
    """Why an envelope was refused, for counters; nobody is told."""

    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    WRONG_MAC = "wrong_mac"
    WRONG_TIME = "wrong_time"
    WRONG_RECEIVER = "wrong_receiver"


class EnvelopeFault(ProtocolError):
    """A packet is not signed, or not so that it can be taken. It gets no answer at all."""

    def __init__(self, reason: EnvelopeReason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class SignedEnvelope(Struct, frozen=True, gc=False, omit_defaults=True):
    """A packet, and who sends it to whom."""

    sender: SenderName
    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    time: Annotated[int, Meta(ge=0, le=2**53)]
    body: str
    mac: Annotated[str, Meta(min_length=64, max_length=64)]
    key: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""
    receiver: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""

    def mac_by(self, key: UdpKey) -> str:
        """Return what `mac` has to be."""
        parts = (self.key, self.sender, self.receiver, str(self.id), str(self.time), self.body)
        return key.secret.mac(*(part.encode() for part in parts)).hex()


_ENVELOPE = msgspec.json.Decoder(SignedEnvelope)
_ENCODE = msgspec.json.Encoder().encode


class Signer:
    """Signs what one sender sends; no two envelopes are the same."""

    def __init__(self) -> None:
        self._signed = 0

    def sign(self, packet: bytes, key: UdpKey, *, sender: str, receiver: str, now: float) -> bytes:
        """Return the packet in an envelope that is taken once; `now` in seconds since 1970."""
        self._signed += 1
        unsigned = SignedEnvelope(
            sender, self._signed, int(now * 1000), packet.decode(), "", key.name, receiver
        )
        return _ENCODE(msgspec.structs.replace(unsigned, mac=unsigned.mac_by(key)))


def verified(envelope: bytes, keys: UdpKeys) -> tuple[SignedEnvelope, UdpKey]:
    """Return an envelope that a live key has signed, and that key, or raise an EnvelopeFault."""
    try:
        found = _ENVELOPE.decode(envelope)
        found.body.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise EnvelopeFault(
            EnvelopeReason.UNSIGNED,
            "not signed; send an object with key, sender, receiver, id, time, body and mac",
        ) from None
    key = keys(found.key)
    if key is None:
        raise EnvelopeFault(
            EnvelopeReason.UNKNOWN_KEY,
            f"signed with key {found.key!r}, which is not known here, or revoked",
        )
    if not hmac.compare_digest(found.mac_by(key).encode(), found.mac.encode()):
        raise EnvelopeFault(
            EnvelopeReason.WRONG_MAC, "signed with another secret, or changed on the way"
        )
    return found, key


class EnvelopeMemory:
    """Which envelopes were seen, for as long as they could be shown again."""

    def __init__(self, *, window: float = WINDOW_SECONDS, max_seen: int = MAX_SEEN) -> None:
        self._window, self._max_seen = window, max_seen
        self._seen: dict[int, set[str]] = {}
        self._count = 0
        self._forgotten = -1

    def __len__(self) -> int:
        return self._count

    def check_time(self, envelope: SignedEnvelope, *, now: float) -> None:
        """Raise an EnvelopeFault if it can't be known whether the envelope was seen."""
        time = envelope.time / 1000
        if abs(now - time) > self._window or int(time) <= self._forgotten:
            raise EnvelopeFault(
                EnvelopeReason.WRONG_TIME,
                f"signed {now - time:.1f} s ago, the window is {self._window:g} s either way; "
                "set the clocks, and sign anew what is sent again",
            )

    def is_repeated(self, envelope: SignedEnvelope, *, now: float) -> bool:
        """Note an envelope; True if it was seen before. Raise as `check_time` does."""
        self.check_time(envelope, now=now)
        second = envelope.time // 1000
        seen = self._seen.get(second)
        if seen is None:
            seen = self._seen[second] = set()
            self._forget(before=int(now - self._window))
        if envelope.mac in seen:
            return True
        seen.add(envelope.mac)
        self._count += 1
        while self._count > self._max_seen:
            self._forget(before=min(self._seen) + 1)
        return False

    def _forget(self, *, before: int) -> None:
        """Forget whole seconds, and refuse them from now on, even if the clock is set back."""
        for second in [second for second in self._seen if second < before]:
            self._count -= len(self._seen.pop(second))
        self._forgotten = max(self._forgotten, before - 1)
