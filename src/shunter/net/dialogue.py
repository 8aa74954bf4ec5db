"""A client's or calculator's end of the UDP dialogue: one socket, one dispatcher.

An endpoint that has a single peer. Only what the dispatcher's own address sends counts. With a
key, all that is sent is signed anew each time, and nothing else is taken. What the commands mean
is the owner's affair. A dispatcher on another host sends little to an address that has not
confirmed anything yet, three times what comes from there; so what is sent until then is padded,
unless it is signed: then a token has shown that it arrives.
Spec: docs/spec/udp.md.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Generic, TypeVar

from shunter.errors import SettingsError
from shunter.net.datagrams import PACKETS_AT_ONCE, DatagramSocket
from shunter.net.environment import REAL, Environment
from shunter.net.udp_endpoint import STRAY, Batch, Seal, UdpEndpoint
from shunter.wire.udp.address_validation import FACTOR, is_loopback
from shunter.wire.udp.keys import UdpKey
from shunter.wire.udp.methods import Packed, Params
from shunter.wire.udp.packets import (
    MAX_PACKET_BYTES,
    Command,
    Confirmation,
    notice,
    padded,
    request,
)
from shunter.wire.udp.peers import Peer, UdpAddress
from shunter.wire.udp.seals import PeerSealer
from shunter.wire.udp.transmissions import RESENT_SECONDS

T = TypeVar("T")

DEFAULT_DISPATCHER: UdpAddress = ("127.0.0.1", 5555)


def unguessable_id(environment: Environment = REAL) -> str:
    """Return an id that nobody uses again, or can foresee."""
    return environment.token_bytes(13).hex()


def peer_name(kind: str, environment: Environment = REAL) -> str:
    """Make a name to sign with that no other peer has."""
    return f"{kind}-{environment.token_bytes(8).hex()}"


def seal_of(key: UdpKey | None, name: str, environment: Environment = REAL) -> Seal | None:
    """Return what signs a peer's packets, if it has a key."""
    return None if key is None else Seal(PeerSealer(key, name), environment.wall)


class Dialogue(Generic[T]):
    """`on_command` hears each command once. `on_answer` gets back what a request was about, with
    its answer, or None where nobody answered in time. An EndpointOwner.
    """

    def __init__(
        self,
        dispatcher: UdpAddress,
        bind: UdpAddress,
        *,
        on_command: Callable[[Command], None],
        on_answer: Callable[[T, Confirmation | None], None],
        seal: Seal | None = None,
        max_packet_bytes: int = MAX_PACKET_BYTES,
        new_id: Callable[[], int | str] | None = None,
        packets_at_once: int = PACKETS_AT_ONCE,
        environment: Environment = REAL,
    ) -> None:
        self.dispatcher = dispatcher
        self.faults = 0
        """Packets that could not be taken: not from the dispatcher, not signed, or not readable."""
        self._on_command, self._on_answer = on_command, on_answer
        is_known = seal is not None or is_loopback(dispatcher[0])
        # So that about a packet of the largest size may come back for it.
        self._padding = 0 if is_known else -(-max_packet_bytes // FACTOR)
        self._new_id = new_id or (lambda: unguessable_id(environment))

        def open_socket(receive: Callable[[Batch], None]) -> DatagramSocket:
            opened = environment.datagram_socket(*bind, receive, at_once=packets_at_once)
            self.address = opened.address
            return opened

        self._endpoint: UdpEndpoint[T] = UdpEndpoint(
            self,
            open_socket,
            clock=asyncio.get_running_loop(),
            jitter=environment.random,
            seal=seal,
            max_packet_bytes=max_packet_bytes,
        )

    def __len__(self) -> int:
        """Return how many requests are under way."""
        return len(self._endpoint)

    def close(self) -> None:
        self._endpoint.close()

    # ---- to the dispatcher

    def ask(self, params: Params, about: T, *, give_up_after: float = RESENT_SECONDS) -> int | str:
        """Send a request until it is answered, and return its transmission id; or raise a
        PacketFault where it is too large.
        """
        transmission_id = self._new_id()
        self._endpoint.ask(
            self.dispatcher,
            transmission_id,
            padded(request(params, transmission_id), self._padding),
            about,
            give_up_after=give_up_after,
        )
        return transmission_id

    def stop_asking(self, transmission_id: int | str) -> None:
        """Send a request no more: its answer is known from elsewhere."""
        self._endpoint.stop_asking(self.dispatcher, transmission_id)

    def tell(self, params: Params) -> None:
        """Send what wants no answer, once."""
        self._endpoint.tell(padded(notice(params), self._padding), self.dispatcher)

    def has_room_for(self, params: Params) -> bool:
        """True if a packet that wants no answer can carry this."""
        size = self._endpoint.size_of(notice(params), self.dispatcher)
        return size <= self._endpoint.max_packet_bytes

    def confirm(self, command: Command, data: Packed | None = None) -> None:
        """Answer a command; its resends get the same answer."""
        self._padding = 0  # whoever sent the command knows now that it arrives
        self._endpoint.confirm(command, self.dispatcher, data)

    def refuse(self, command: Command, code: str, message: str, field: str = "") -> None:
        """Answer why a command can't be done; its resends get the same answer."""
        self._endpoint.refuse(command, self.dispatcher, code, message, field)

    def leave_unanswered(self, command: Command) -> None:
        """Take a command as never heard, so that a resend of it is looked at anew."""
        self._endpoint.unheard(command, self.dispatcher)

    # ---- EndpointOwner

    def is_welcome(self, address: UdpAddress) -> bool:
        return address == self.dispatcher

    def is_remembered(self, command: Command) -> bool:
        return command.transmission_id is not None

    def may_repeat(self, command: Command) -> bool:
        return False

    def take_command(self, command: Command, peer: Peer, size: int) -> None:
        self._on_command(command)

    def take_answer(self, about: T, confirmation: Confirmation | None) -> None:
        self._on_answer(about, confirmation)

    def take_fault(self, peer: Peer, reason: str, detail: str) -> None:
        if reason != STRAY:
            self.faults += 1

    def batch_taken(self) -> None:
        """Nothing follows from a batch as such."""


async def resolved(dispatcher: UdpAddress, environment: Environment = REAL) -> UdpAddress:
    """Look up a dispatcher's name, once: what it sends is known by its numeric address."""
    host, port = dispatcher
    try:
        return await environment.resolved(host, port)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            "the system",
            "the dispatcher's address",
            f"{host}:{port}, which can't be resolved ({error})",
            "a host name or an IP address that is known here, and a port",
        ) from None


def place_to_bind(dispatcher: UdpAddress) -> UdpAddress:
    """Choose where to send from: not open to the world where the dispatcher is on this host."""
    address = ipaddress.ip_address(dispatcher[0].partition("%")[0])
    if address.is_loopback:
        return dispatcher[0], 0
    return ("0.0.0.0" if address.version == 4 else "::"), 0  # noqa: S104
