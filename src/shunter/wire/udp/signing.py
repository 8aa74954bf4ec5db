"""Packets signed with a secret that peers share: who sent one, and that nobody changed it since.

    {"sender": "calculator-7", "id": 41, "time": 1598326709621, "body": "{...}", "mac": "5f0c..."}

`body` is the packet, as text. `time` is in whole milliseconds since 1970. `id` is a number that
the sender uses once: it counts what it signs. `mac` is the HMAC-SHA256, in hexadecimal, of the
other four in this order, each written in UTF-8 as its length in bytes, a colon, itself and a comma
(a netstring), so that no two envelopes give the same text: `12:calculator-7,2:41,13:159832670...`

**Time.** An envelope is taken within the window (30 s) before and after the receiver's clock. Peers
whose clocks differ by more can't talk; that is what keeps the memory of what was seen finite.

**Repetition.** An envelope that has been seen within the window is a repetition, and `opened` says
so. It may be a replay, or the network's double, or an honest resend: nothing tells them apart, so
nothing may be *done* because of one. A packet that wants no answer is then dropped. A request that
`Incoming` knows from this peer is answered again; one that it doesn't know is dropped. A sender
may therefore resend the same envelope, which lasts for as long as the window does, or sign the
packet anew, as our own do: that is a new envelope, its transmission id shows `Incoming` that it is
an old request, and it lasts for as long as it likes. Either way nothing is done twice.

**Memory.** Only envelopes that were signed with the secret are remembered, by the second that they
claim to be from. Where they are too many, the oldest second is forgotten and everything from then
or earlier is refused: the window gets shorter, a replay never gets in. For the same reason nothing
is taken from before the receiver was started, or from that second.

**Reflection.** What bears our own name is refused, else our answers could be sent back to us as
those of somebody else.

It is no encryption: bodies can be read on the way. All who have the secret are trusted, and the
receiver is not signed, so that an envelope on its way to one peer can within the window be shown to
another of them: transmission ids should not be guessable, and a task belongs to its sender's name.
Pure: `now` is an argument. Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from shunter.errors import ProtocolError

MIN_SECRET_BYTES = 16
WINDOW_SECONDS = 30.0
MAX_SEEN = 1_000_000
MAX_SENDER_LENGTH = 64


class Secret:
    """What peers share; it is never shown."""

    __slots__ = ("_key",)

    def __init__(self, text: bytes) -> None:
        key = text.rstrip(b"\r\n")  # which most files end with
        if len(key) < MIN_SECRET_BYTES:
            raise ValueError(
                f"a secret of {len(key)} bytes is too short; use at least {MIN_SECRET_BYTES}, "
                "for example from `openssl rand -hex 32`"
            )
        self._key = key

    def mac(self, sender: str, number: int, time: int, body: bytes) -> bytes:
        """Return the signature of an envelope."""
        name = sender.encode()
        text = b"%d:%b,%d:%d,%d:%d,%d:%b," % (
            len(name), name, len(str(number)), number, len(str(time)), time, len(body), body,
        )  # fmt: skip
        return hmac.digest(self._key, text, "sha256")


class _Envelope(Struct, frozen=True, gc=False):
    sender: Annotated[str, Meta(min_length=1, max_length=MAX_SENDER_LENGTH)]
    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    time: Annotated[int, Meta(ge=0, le=2**53)]
    body: str
    mac: Annotated[str, Meta(min_length=64, max_length=64)]


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ENCODE = msgspec.json.Encoder().encode


class Signer:
    """Signs what one sender sends."""

    def __init__(self, secret: Secret, sender: str) -> None:
        if not 1 <= len(sender) <= MAX_SENDER_LENGTH:
            raise ValueError(f"sender {sender!r}: use 1 to {MAX_SENDER_LENGTH} characters")
        self._secret, self._sender = secret, sender
        self._signed = 0

    def sign(self, packet: bytes, *, now: float) -> bytes:
        """Return the packet in an envelope that is taken once; `now` in seconds since 1970."""
        self._signed += 1
        time = int(now * 1000)
        mac = self._secret.mac(self._sender, self._signed, time, packet)
        return _ENCODE(_Envelope(self._sender, self._signed, time, packet.decode(), mac.hex()))


class EnvelopeReason(StrEnum):
    """Why an envelope was refused, for counters; nobody is told."""

    UNSIGNED = "unsigned"
    WRONG_MAC = "wrong_mac"
    WRONG_TIME = "wrong_time"
    REFLECTED = "reflected"


class EnvelopeFault(ProtocolError):
    """A packet is not signed, or not so that it can be taken. It gets no answer at all."""

    def __init__(self, reason: EnvelopeReason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Opened(Struct, frozen=True, gc=False):
    """A packet that somebody who has the secret sent; nothing may be done for a repetition."""

    sender: str
    body: bytes
    is_repeated: bool


class Opener:
    """Opens what others signed, and remembers it for as long as it could be shown again."""

    def __init__(
        self,
        secret: Secret,
        own_name: str,
        *,
        now: float,
        window: float = WINDOW_SECONDS,
        max_seen: int = MAX_SEEN,
    ) -> None:
        self._secret, self._own_name = secret, own_name
        self._window, self._max_seen = window, max_seen
        self._seen: dict[int, set[bytes]] = {}
        self._count = 0
        self._forgotten = int(now)

    def __len__(self) -> int:
        return self._count

    def opened(self, envelope: bytes, *, now: float) -> Opened:
        """Return what is in an envelope, or raise an EnvelopeFault."""
        try:
            found = _ENVELOPE.decode(envelope)
            body = found.body.encode()
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise EnvelopeFault(
                EnvelopeReason.UNSIGNED,
                "not signed; send an object with sender, id, time, body and mac",
            ) from None
        mac = self._secret.mac(found.sender, found.id, found.time, body)
        if not hmac.compare_digest(mac.hex().encode(), found.mac.encode()):
            raise EnvelopeFault(
                EnvelopeReason.WRONG_MAC, "signed with another secret, or changed on the way"
            )
        if found.sender == self._own_name:
            raise EnvelopeFault(
                EnvelopeReason.REFLECTED,
                f"sent by {found.sender!r}, which is our own name; give each peer its own",
            )
        return Opened(found.sender, body, self._is_repeated(mac, found.time / 1000, now))

    def _is_repeated(self, mac: bytes, time: float, now: float) -> bool:
        second = int(time)
        if abs(now - time) > self._window or second <= self._forgotten:
            raise EnvelopeFault(
                EnvelopeReason.WRONG_TIME,
                f"signed {now - time:.1f} s ago, the window is {self._window:g} s either way; "
                "set the clocks, and sign anew what is sent again",
            )
        seen = self._seen.get(second)
        if seen is None:
            seen = self._seen[second] = set()
            self._forget(before=int(now - self._window))
        if mac in seen:
            return True
        seen.add(mac)
        self._count += 1
        while self._count > self._max_seen:
            self._forget(before=min(self._seen) + 1)
        return False

    def _forget(self, *, before: int) -> None:
        """Forget whole seconds, and refuse them from now on, even if the clock is set back."""
        for second in [second for second in self._seen if second < before]:
            self._count -= len(self._seen.pop(second))
        self._forgotten = max(self._forgotten, before - 1)
