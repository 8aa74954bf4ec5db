"""One end of the UDP dialogue: a socket, and all requests that are under way on it.

A dispatcher has one for all its peers, a client has one, each calculator has one. It sends
requests until they are answered or given up, takes each command once however often it arrives,
and answers again what arrives again. What commands mean is its owner's affair. A shell: when to
send again, and what is a repetition, is decided in `wire/udp/transmissions.py`; how much goes to
an address that may be forged, in `wire/udp/address_validation.py`; what is signed how, and for
whom, in `wire/udp/seals.py`. Clock, socket and randomness are given to it. Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from shunter.wire.udp.address_validation import AddressValidation
from shunter.wire.udp.methods import Packed
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    Command,
    Confirmation,
    PacketFault,
    PacketReason,
    answer,
    error_answer,
    parse,
)
from shunter.wire.udp.peers import Peer, UdpAddress, address_of
from shunter.wire.udp.seals import Misaddressed, OpenedEnvelope, Sealer
from shunter.wire.udp.signatures import EnvelopeFault
from shunter.wire.udp.transmissions import (
    RESENT_SECONDS,
    GaveUp,
    Heard,
    Incoming,
    Outgoing,
)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Batch = list[tuple[bytes, UdpAddress]]

STRAY = "confirmation"
"""The reason of the fault that is none: an answer that came twice, or too late."""


class PacketSocket(Protocol):
    """Where packets go out; those that come in are given to the endpoint's `receive`."""

    @property
    def is_closed(self) -> bool:
        """True if nothing can be sent any more."""

    def send(self, packet: bytes, address: UdpAddress, /) -> None:
        """Send a packet, or drop it; never raise."""

    def close(self) -> None:
        """Let go of the address."""


class Alarm(Protocol):
    """A call that is to be made later."""

    def cancel(self) -> None:
        """Let it not be made."""


class LoopClock(Protocol):
    """The time, and a way to be called at a given one: an event loop is one."""

    def time(self) -> float:
        """Return the time in seconds, from any beginning."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> Alarm:
        """Call back then."""


class Seal:
    """A sealer, and the clock by which it signs: seconds since 1970."""

    def __init__(self, sealer: Sealer, now: Callable[[], float] = time.time) -> None:
        self._sealer, self._now = sealer, now

    def sealed(self, packet: bytes, peer: Peer) -> bytes | None:
        """Return a packet as it goes to a peer; None if nothing may go there any more."""
        return self._sealer.sealed(packet, peer, now=self._now())

    def opened(self, envelope: bytes, address: UdpAddress) -> OpenedEnvelope:
        """Return what came from an address, or raise an EnvelopeFault or Misaddressed."""
        return self._sealer.opened(envelope, address, now=self._now())


class EndpointOwner(Protocol[T_contra]):
    """Whoever has an endpoint, and is told what comes in."""

    def is_welcome(self, address: UdpAddress) -> bool:
        """True if packets from there are looked at."""

    def is_remembered(self, command: Command) -> bool:
        """True if a repetition of the command must be told from a new one."""

    def may_repeat(self, command: Command) -> bool:
        """True if a command that came to nothing, it seems, may be carried out once more."""

    def take_command(self, command: Command, peer: Peer, size: int) -> None:
        """Carry out a command that came in so many bytes; may raise a PacketFault."""

    def take_answer(self, about: T_contra, confirmation: Confirmation | None) -> None:
        """Go on with what a request was about; None if nobody answered in time."""

    def take_fault(self, peer: Peer, reason: str, detail: str) -> None:
        """Note a packet that could not be taken."""

    def batch_taken(self) -> None:
        """Go on after all that had arrived was taken."""


class UdpEndpoint(Generic[T]):
    """Requests out and commands in, over any number of peers."""

    def __init__(
        self,
        owner: EndpointOwner[T],
        open_socket: Callable[[Callable[[Batch], None]], PacketSocket],
        *,
        clock: LoopClock,
        jitter: Callable[[], float],
        seal: Seal | None = None,
        validation: AddressValidation | None = None,
        max_packet_bytes: int = MAX_PACKET_BYTES,
    ) -> None:
        """With `validation`, addresses have to prove themselves: strangers send here."""
        self.max_packet_bytes = max_packet_bytes
        self._validation = validation
        self._told: tuple[bytes, Peer] | None = None
        self._owner, self._clock, self._seal = owner, clock, seal
        self._outgoing: Outgoing[T] = Outgoing(jitter=jitter)
        self._incoming = Incoming()
        self._alarm: Alarm | None = None
        self._rings_at = math.inf
        self._socket = open_socket(self.receive)

    def __len__(self) -> int:
        """Return how many requests are under way."""
        return len(self._outgoing)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._socket.close()

    def forget_old(self) -> None:
        """Let memories fade of peers who say nothing any more."""
        self._incoming.tick(now=self._clock.time())

    # ---- out

    def ask(
        self,
        peer: Peer,
        transmission_id: int | str,
        packet: bytes,
        about: T,
        *,
        give_up_after: float = RESENT_SECONDS,
    ) -> None:
        """Send a request until it is answered; raise a PacketFault if it is too large.

        Where addresses have to prove themselves, the answer is a proof: the transmission id must
        be one that nobody can guess.
        """
        sealed = self._sealed(packet, peer)
        if sealed is not None and len(sealed) > self.max_packet_bytes:
            raise PacketFault(
                PacketReason.TOO_LARGE,
                "",
                f"{len(sealed)} bytes in a packet; at most {self.max_packet_bytes} are allowed",
            )
        now = self._clock.time()
        self._outgoing.begin(
            peer, transmission_id, packet, about, now=now, give_up_after=give_up_after
        )
        self._send_sealed(sealed, address_of(peer), is_repeat=False)
        self._set_alarm()

    def is_asking(self, peer: Peer, transmission_id: int | str) -> bool:
        """True if this request is being sent until it is answered."""
        return self._outgoing.is_under_way(peer, transmission_id)

    def stop_asking(self, peer: Peer, transmission_id: int | str) -> None:
        """Send a request no more, and expect no answer to it."""
        self._outgoing.forget(peer, transmission_id)

    def tell(self, packet: bytes, peer: Peer) -> None:
        """Send what wants no answer; once more if the peer turns out to have another name."""
        self._told = packet, peer
        self.send(packet, peer)

    def send(self, packet: bytes, peer: Peer, *, is_repeat: bool = False) -> None:
        """Send a packet once, if as much may be sent there."""
        self._send_sealed(self._sealed(packet, peer), address_of(peer), is_repeat=is_repeat)

    def _send_sealed(self, sealed: bytes | None, address: UdpAddress, *, is_repeat: bool) -> None:
        if sealed is None:
            return
        validation = self._validation
        if validation is None or validation.may_send(address, len(sealed), is_repeat=is_repeat):
            self._socket.send(sealed, address)

    def _sealed(self, packet: bytes, peer: Peer) -> bytes | None:
        return packet if self._seal is None else self._seal.sealed(packet, peer)

    def size_of(self, packet: bytes, peer: Peer) -> int:
        """Return how long a packet is on its way, with its signature if there is one."""
        sealed = self._sealed(packet, peer)
        return 0 if sealed is None else len(sealed)

    def confirm(self, command: Command, peer: Peer, data: Packed | None = None) -> None:
        """Answer a command; its resends get the same answer, or none if it wants none."""
        written = b""
        if command.wants_answer and command.transmission_id is not None:
            written = answer(command.transmission_id, data, most=self.max_packet_bytes)
        self._answer(command, peer, written)

    def refuse(
        self, command: Command, peer: Peer, code: str, message: str, field: str = ""
    ) -> None:
        """Answer why a command can't be done; its resends get the same answer."""
        written = None
        if command.asked_as is not None:
            most = self.max_packet_bytes
            written = error_answer(command.asked_as, code, message, field, most=most)
        self._answer(command, peer, written or b"")

    def turn_away(
        self, command: Command, peer: Peer, size: int, code: str, message: str, field: str = ""
    ) -> None:
        """Say in at most `size` bytes why a command is not done now; its resend is looked at."""
        self.unheard(command, peer)
        self._say_why(command.asked_as, peer, size, code, message, field)

    def unheard(self, command: Command, peer: Peer) -> None:
        """Take a command as never heard: it came to nothing, and its resend shall be looked at."""
        self._incoming.forget(peer, command.key)

    def _complain(self, fault: PacketFault, peer: Peer, size: int) -> None:
        asked_as = fault.transmission_id
        self._say_why(asked_as, peer, size, fault.reason, fault.message, fault.field)

    def _answer(self, command: Command, peer: Peer, written: bytes) -> None:
        self._incoming.answered(peer, command.key, written, now=self._clock.time())
        if written:
            self.send(written, peer)

    def _say_why(
        self,
        transmission_id: int | str | None,
        peer: Peer,
        size: int,
        code: str,
        message: str,
        field: str,
    ) -> None:
        if transmission_id is not None:
            written = error_answer(transmission_id, code, message, field, most=size)
            if written is not None:
                self.send(written, peer)

    # ---- in

    def receive(self, batch: Batch) -> None:
        """Take all that has arrived."""
        owner = self._owner
        for packet, address in batch:
            if not owner.is_welcome(address):
                owner.take_fault(address, "stranger", "a packet of somebody else")
                continue
            if self._validation is not None:
                self._validation.heard(address, len(packet))
            try:
                self._take(packet, address)
            except EnvelopeFault as fault:  # whoever did not sign is never answered
                owner.take_fault(address, fault.reason, fault.message)
            except Misaddressed as elsewhere:
                self._send_sealed(elsewhere.hello, address, is_repeat=True)
        owner.batch_taken()
        self._set_alarm()

    def _take(self, packet: bytes, address: UdpAddress) -> None:
        if self._seal is None or len(packet) > self.max_packet_bytes:
            self._take_packet(OpenedEnvelope(address, packet), len(packet))
            return
        opened = self._seal.opened(packet, address)
        if opened.is_proof and self._validation is not None:
            self._validation.proved(address)
        if opened.is_renamed:
            self._send_again(opened.peer)
        if opened.body:
            self._take_packet(opened, len(packet))

    def _take_packet(self, opened: OpenedEnvelope, size: int) -> None:
        packet, peer, is_repeated = opened.body, opened.peer, opened.is_repeated
        try:
            found = parse(packet, most=self.max_packet_bytes)
            if isinstance(found, Confirmation):
                self._take_confirmation(found, peer)
            elif not self._owner.is_remembered(found):
                if not is_repeated:
                    self._owner.take_command(found, peer, size)
            elif self._is_new(found, peer, is_repeated=is_repeated):
                self._owner.take_command(found, peer, size)
        except PacketFault as fault:
            self._owner.take_fault(peer, fault.reason, str(fault))
            self._complain(fault, peer, size)

    def _send_again(self, peer: Peer) -> None:
        """Send what was addressed to a name that the peer has no more, or had not told yet."""
        if self._told is not None:
            self.send(*self._told)
        for waiting in self._outgoing.under_way_to(peer):
            self.send(waiting.packet, peer, is_repeat=True)

    def _is_new(self, command: Command, peer: Peer, *, is_repeated: bool) -> bool:
        """True if a command is to be carried out; one that was is answered again."""
        known = self._incoming.received(peer, command.key, now=self._clock.time())
        if known is Heard.NEW:
            if is_repeated:  # a replay: nothing may be done because of it
                self.unheard(command, peer)
            return not is_repeated
        if known is Heard.UNDER_WAY:
            return False
        if known is Heard.OVERDUE:
            return not is_repeated and self._owner.may_repeat(command)
        if known:
            self.send(known, peer)
        return False

    def _take_confirmation(self, found: Confirmation, peer: Peer) -> None:
        ended = self._outgoing.confirmed(peer, found.transmission_id, now=self._clock.time())
        if ended is None:
            self._owner.take_fault(peer, STRAY, "a confirmation that nobody waits for")
        else:
            if self._validation is not None:
                self._validation.proved(address_of(peer))
            self._owner.take_answer(ended.about, found)

    # ---- by the clock

    def _set_alarm(self) -> None:
        wakes_at = self._outgoing.wakes_at
        if wakes_at is None or self._socket.is_closed:
            return
        if self._alarm is not None:
            if self._rings_at <= wakes_at:
                return
            self._alarm.cancel()
        self._rings_at = wakes_at  # not every loop's handle knows it
        self._alarm = self._clock.call_at(wakes_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        for effect in self._outgoing.tick(now=self._clock.time()):
            if isinstance(effect, GaveUp):
                if self._validation is not None:
                    self._validation.doubted(address_of(effect.peer))
                self._owner.take_answer(effect.about, None)
            else:
                self.send(effect.packet, effect.peer, is_repeat=True)
        self._set_alarm()
