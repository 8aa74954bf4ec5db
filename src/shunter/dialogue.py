"""One peer's end of the UDP dialogue with a dispatcher: a socket, a clock, and the pure cores.

A client has one, a calculator has one. It asks until it is answered or gives up, takes each
command once however often it arrives, and answers again what arrives again. What the commands
mean is the peer's affair. With a secret, all that is sent is signed anew each time, and nothing
else is taken. Only what the dispatcher's own address sends counts. Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from shunter.datagrams import PACKETS_AT_ONCE, Batch, DatagramSocket
from shunter.errors import SettingsError
from shunter.wire.udp.methods import Packed, Params
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    Command,
    Confirmation,
    PacketFault,
    PacketReason,
    answer,
    error_answer,
    notice,
    parse,
    request,
)
from shunter.wire.udp.signing import (
    MAX_SENDER_LENGTH,
    EnvelopeFault,
    Opener,
    Secret,
    Signer,
)
from shunter.wire.udp.transmissions import (
    RESENT_SECONDS,
    GaveUp,
    Heard,
    Incoming,
    Outgoing,
    Peer,
)

T = TypeVar("T")

DEFAULT_DISPATCHER: Peer = ("127.0.0.1", 5555)


def unguessable_id() -> str:
    """Return an id that nobody uses again, or can foresee."""
    return secrets.token_hex(13)


def peer_name(kind: str) -> str:
    """Make a name to sign with that no other peer has."""
    host = socket.gethostname()[:20]
    return f"{kind}-{host}-{os.getpid()}-{unguessable_id()[-12:]}"[:MAX_SENDER_LENGTH]


class Seal:
    """Signs what one peer sends, and opens what the other signed, `since` that time."""

    def __init__(self, secret: Secret, name: str, *, since: float | None = None) -> None:
        self._signer = Signer(secret, name)
        self._opener = Opener(secret, name, now=time.time() if since is None else since)

    def sealed(self, packet: bytes) -> bytes:
        return self._signer.sign(packet, now=time.time())

    def opened(self, envelope: bytes) -> tuple[bytes, bool]:
        """Return the packet, and whether it was shown before; or raise an EnvelopeFault."""
        found = self._opener.opened(envelope, now=time.time())
        return found.body, found.is_repeated


class Dialogue(Generic[T]):
    """`on_command` hears each command once. `on_answer` gets back what a request was about, with
    its answer, or None where nobody answered in time.
    """

    def __init__(
        self,
        dispatcher: Peer,
        bind: Peer,
        *,
        on_command: Callable[[Command], None],
        on_answer: Callable[[T, Confirmation | None], None],
        seal: Seal | None = None,
        max_packet_bytes: int = MAX_PACKET_BYTES,
        new_id: Callable[[], int | str] = unguessable_id,
        packets_at_once: int = PACKETS_AT_ONCE,
    ) -> None:
        self.dispatcher = dispatcher
        self.faults = 0
        """Packets that could not be taken: not from the dispatcher, not signed, or not readable."""
        self._on_command, self._on_answer = on_command, on_answer
        self._seal, self._most, self._new_id = seal, max_packet_bytes, new_id
        self._outgoing: Outgoing[T] = Outgoing(spread=random.random)
        self._incoming = Incoming()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._socket = DatagramSocket(*bind, self._receive, at_once=packets_at_once)
        self.address = self._socket.address

    def __len__(self) -> int:
        """Return how many requests are under way."""
        return len(self._outgoing)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._socket.close()

    # ---- to the dispatcher

    def ask(self, params: Params, about: T, *, give_up_after: float = RESENT_SECONDS) -> None:
        """Send a request until it is answered; or raise a PacketFault where it is too large."""
        transmission_id = self._new_id()
        packet = request(params, transmission_id)
        sealed = self._sealed(packet)
        if len(sealed) > self._most:
            raise PacketFault(
                PacketReason.TOO_LARGE,
                "",
                f"{len(sealed)} bytes in a packet; at most {self._most} are allowed",
            )
        now = self._loop.time()
        self._outgoing.begin(
            self.dispatcher, transmission_id, packet, about, now=now, give_up_after=give_up_after
        )
        self._socket.send(sealed, self.dispatcher)
        self._set_timer()

    def tell(self, params: Params) -> None:
        """Send what wants no answer, once."""
        self._send(notice(params))

    def confirm(self, command: Command, data: Packed | None = None) -> None:
        """Answer a command; its resends get the same answer."""
        if command.wants_answer:
            assert command.transmission_id is not None
            self._answer(command, answer(command.transmission_id, data, most=self._most))

    def refuse(self, command: Command, code: str, message: str, field: str = "") -> None:
        """Answer why a command can't be done; its resends get the same answer."""
        if command.wants_answer:
            assert command.transmission_id is not None
            refusal = error_answer(command.transmission_id, code, message, field, most=self._most)
            self._answer(command, refusal or b"")

    def leave_unanswered(self, command: Command) -> None:
        """Take a command as never heard, so that a resend of it is looked at anew."""
        self._incoming.forget(self.dispatcher, command.key)

    def _answer(self, command: Command, packet: bytes) -> None:
        self._incoming.answered(self.dispatcher, command.key, packet, now=self._loop.time())
        if packet:
            self._send(packet)

    def _send(self, packet: bytes) -> None:
        self._socket.send(self._sealed(packet), self.dispatcher)

    def _sealed(self, packet: bytes) -> bytes:
        return packet if self._seal is None else self._seal.sealed(packet)

    # ---- from the dispatcher

    def _receive(self, batch: Batch) -> None:
        for packet, sender in batch:
            if sender != self.dispatcher:
                self.faults += 1
                continue
            try:
                self._take(packet)
            except EnvelopeFault:
                self.faults += 1
            except PacketFault as fault:
                self._complain(packet, fault)

    def _take(self, packet: bytes) -> None:
        is_repeated = False
        if self._seal is not None:
            packet, is_repeated = self._seal.opened(packet)
        found = parse(packet, most=self._most)
        if isinstance(found, Command):
            self._take_command(found, is_repeated=is_repeated)
            return
        ended = self._outgoing.confirmed(self.dispatcher, found.transmission_id)
        if ended is not None:
            self._on_answer(ended.about, found)

    def _take_command(self, command: Command, *, is_repeated: bool) -> None:
        if command.transmission_id is None:
            if not is_repeated:
                self._on_command(command)
            return
        heard = self._incoming.received(self.dispatcher, command.key, now=self._loop.time())
        if isinstance(heard, bytes):
            if heard:
                self._send(heard)
        elif heard is Heard.NEW and is_repeated:
            self.leave_unanswered(command)  # a replay: nothing may be done because of it
        elif heard is Heard.NEW:
            self._on_command(command)

    def _complain(self, packet: bytes, fault: PacketFault) -> None:
        self.faults += 1
        if fault.transmission_id is not None:
            refusal = error_answer(
                fault.transmission_id, fault.reason, fault.message, fault.field, most=len(packet)
            )
            if refusal is not None:
                self._send(refusal)

    # ---- by the clock

    def _set_timer(self) -> None:
        wakes_at = self._outgoing.wakes_at
        if wakes_at is None or self._socket.is_closed:
            return
        if self._timer is not None:
            if self._timer.when() <= wakes_at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(wakes_at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for effect in self._outgoing.tick(now=self._loop.time()):
            if isinstance(effect, GaveUp):
                self._on_answer(effect.about, None)
            else:
                self._send(effect.packet)
        self._set_timer()


async def resolved(dispatcher: Peer) -> Peer:
    """Look up a dispatcher's name, once: what it sends is known by its numeric address."""
    host, port = dispatcher
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            "the system",
            "the dispatcher's address",
            f"{host}:{port}, which can't be resolved ({error})",
            "a host name or an IP address that is known here, and a port",
        ) from None
    address = found[0][4]
    return str(address[0]), int(address[1])


def place_to_bind(dispatcher: Peer) -> Peer:
    """Choose where to send from: not open to the world where the dispatcher is on this host."""
    address = ipaddress.ip_address(dispatcher[0].partition("%")[0])
    if address.is_loopback:
        return dispatcher[0], 0
    return ("0.0.0.0" if address.version == 4 else "::"), 0  # noqa: S104
