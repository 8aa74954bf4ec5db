"""Packets in and out: sent, signed, sent again, answered, remembered.

What the two sides of the gateway share. Whoever begins a request gives two functions along: one
for the confirmation, one for when nobody confirmed it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec import Struct

from shunter.datagrams import Batch, DatagramSocket
from shunter.environment import REAL, Environment
from shunter.gateway.complaints import Complaints
from shunter.wire.udp import packets
from shunter.wire.udp.calculators import Address
from shunter.wire.udp.packets import AnswerError, Command, Confirmation, Packet
from shunter.wire.udp.signing import Opener, Signer
from shunter.wire.udp.transmissions import GaveUp, Heard, Incoming, Outgoing, Resend


class Signing(Struct, frozen=True):
    """How packets are signed and opened, where peers share a secret."""

    signer: Signer
    opener: Opener


class Asked(Struct, frozen=True):
    """What is to happen when a request is confirmed, perhaps with an error, or never."""

    confirmed: Callable[[AnswerError | None], None]
    gave_up: Callable[[], None]


class Exchange:
    """One socket, and all that is under way on it."""

    def __init__(
        self,
        complaints: Complaints,
        *,
        max_packet_bytes: int,
        now: Callable[[], float],
        signing: Signing | None,
        environment: Environment = REAL,
    ) -> None:
        self._environment = environment
        self.now = now
        self.max_packet_bytes = max_packet_bytes
        self._complaints = complaints
        self._signing = signing
        self._outgoing: Outgoing[Asked] = Outgoing(spread=environment.random)
        self._incoming = Incoming()
        self._numbers = itertools.count(int(now() * 1000) * 1000)
        self.socket: DatagramSocket

    def open(self, host: str, port: int, receive: Callable[[Batch], None]) -> None:
        """Listen, or raise an OSError."""
        self.socket = self._environment.datagram_socket(host, port, receive)

    def close(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()

    def tick(self) -> None:
        """Let time pass: resends, and memories that fade."""
        for effect in self._outgoing.tick(now=self.now()):
            match effect:
                case Resend(peer, _, packet):
                    self.send(packet, peer)
                case GaveUp(about=asked):
                    asked.gave_up()
        self._incoming.tick(now=self.now())

    def complain(self, peer: Address, reason: str, detail: str) -> None:
        self._complaints.note(f"{peer[0]}:{peer[1]}", f"udp_{reason}", detail)

    # ---- out

    def number(self) -> int:
        """Return a transmission id that was not used before, in this life or an earlier one."""
        return next(self._numbers)

    def ask(
        self, peer: Address, number: int, packet: bytes, asked: Asked, *, give_up_after: float
    ) -> None:
        """Send a request, again and again until it is confirmed; its number is not under way."""
        self._outgoing.begin(
            peer, number, packet, asked, now=self.now(), give_up_after=give_up_after
        )
        self.send(packet, peer)

    def stop_asking(self, peer: Address, number: int) -> None:
        self._outgoing.forget(peer, number)

    def send(self, packet: bytes, peer: Address) -> None:
        if self._signing is not None:
            packet = self._signing.signer.sign(packet, now=self.now())
        self.socket.send(packet, peer)

    def size_of(self, packet: bytes) -> int:
        """Return how long a packet is on its way, with its signature if there is one."""
        if self._signing is not None:
            packet = self._signing.signer.sign(packet, now=self.now())
        return len(packet)

    # ---- in

    def opened(self, packet: bytes) -> tuple[Packet, int, bool]:
        """Read a packet: what it says, how long it is, and whether it may be a replay."""
        is_repeated = False
        if self._signing is not None:
            if len(packet) > self.max_packet_bytes:
                raise packets.too_large(packet, self.max_packet_bytes)
            envelope = self._signing.opener.opened(packet, now=self.now())
            packet, is_repeated = envelope.body, envelope.is_repeated
        return packets.parse(packet, most=self.max_packet_bytes), len(packet), is_repeated

    def is_new(
        self, command: Command, peer: Address, *, is_repeated: bool, is_harmless: bool = False
    ) -> bool:
        """Tell whether a command is to be carried out; one that was is answered again.

        What is harmless when repeated is carried out again until it is answered.
        """
        known = self._incoming.received(peer, command.key, now=self.now())
        if known is Heard.NEW:
            if is_repeated:
                self.unheard(command, peer)
            return not is_repeated
        if known is Heard.UNDER_WAY:
            return is_harmless and not is_repeated
        if known:
            self.send(known, peer)
        return False

    def unheard(self, command: Command, peer: Address) -> None:
        """Take a command as never heard: it came to nothing, and its resend shall be looked at."""
        self._incoming.forget(peer, command.key)

    def answer(self, command: Command, peer: Address) -> None:
        """Confirm a request, and remember that; also what wants no answer is remembered."""
        written = b""
        if command.wants_answer and command.transmission_id is not None:
            written = packets.answer(command.transmission_id)
            self.send(written, peer)
        self._incoming.answered(peer, command.key, written, now=self.now())

    def refuse(
        self,
        transmission_id: int | str | None,
        peer: Address,
        size: int,
        *,
        code: str,
        message: str,
        field: str = "",
    ) -> None:
        """Say why a request was not taken, in no more bytes than it had."""
        if transmission_id is not None:
            written = packets.error_answer(transmission_id, code, message, field, most=size)
            if written is not None:
                self.send(written, peer)

    def confirmed(self, confirmation: Confirmation, peer: Address) -> None:
        """Pass a confirmation on to whoever waits for it."""
        ended = self._outgoing.confirmed(peer, confirmation.transmission_id)
        if ended is None:
            self.complain(peer, "confirmation", "a confirmation that nobody waits for")
        else:
            ended.about.confirmed(confirmation.error)
