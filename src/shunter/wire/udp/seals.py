"""To whom a signed packet is addressed, and who may take it.

A dispatcher has a name for each address that talks to it: its own, new at each start, and behind
a dot a token that only it can make for that address. A peer writes this name into every packet as
the receiver. So what was signed for one dispatcher is of no use at another, nor at the same after
a restart, nor from another address than the one that was told the name: shown there, it is
neither done nor remembered, and the owner's own packet is taken as if nothing had been. And who
writes the name has received what was sent to its address.

A peer learns the name by a **hello**: an envelope with an empty body, which a dispatcher sends
back for a packet that is signed with a live key and addressed to nobody, or to somebody else. The
peer then sends again what is under way. A hello is never answered by a hello.

What a dispatcher sends is signed with the key of the peer that it is for, and addressed to the
name that this peer signs with. Peers take nothing else. Pure: `now` is an argument.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from shunter.wire.udp.keys import Secret, UdpKey, UdpKeys
from shunter.wire.udp.peers import KeyedPeer, Peer, UdpAddress
from shunter.wire.udp.signatures import (
    EnvelopeFault,
    EnvelopeMemory,
    EnvelopeReason,
    Signer,
    verified,
)

TOKEN_LENGTH = 16
"""In hexadecimal digits: 64 bits."""


class OpenedEnvelope(Struct, frozen=True, gc=False):
    """A packet that somebody with a key sent to us; nothing may be done for a repetition."""

    peer: Peer
    body: bytes
    is_repeated: bool = False
    is_proof: bool = False
    """Its sender has repeated what was sent to its address."""
    is_renamed: bool = False
    """The other side has a new name: what is under way was addressed to the old one."""


class Misaddressed(Exception):
    """A packet of somebody with a key is for somebody else; `hello` tells it whom to address."""

    def __init__(self, hello: bytes) -> None:
        super().__init__("addressed to somebody else")
        self.hello = hello


class Sealer(Protocol):
    """Signs what one end sends, and opens what it gets."""

    def sealed(self, packet: bytes, peer: Peer, *, now: float) -> bytes | None:
        """Return a packet as it goes to a peer; None if nothing may go there any more."""

    def opened(self, envelope: bytes, address: UdpAddress, *, now: float) -> OpenedEnvelope:
        """Return what came from an address, or raise an EnvelopeFault or Misaddressed."""


class PeerSealer:
    """A client's or calculator's: one key, one dispatcher."""

    def __init__(self, key: UdpKey, name: str) -> None:
        self._key, self._name = key, name
        self._signer, self._memory = Signer(), EnvelopeMemory()
        self._dispatcher, self._named_at = "", 0

    def sealed(self, packet: bytes, peer: Peer, *, now: float) -> bytes | None:
        return self._signer.sign(
            packet, self._key, sender=self._name, receiver=self._dispatcher, now=now
        )

    def opened(self, envelope: bytes, address: UdpAddress, *, now: float) -> OpenedEnvelope:
        found, _ = verified(envelope, self._own_key)
        if found.receiver != self._name:
            raise EnvelopeFault(
                EnvelopeReason.WRONG_RECEIVER, f"addressed to {found.receiver!r}, not to us"
            )
        is_repeated = self._memory.is_repeated(found, now=now)
        is_other = found.sender != self._dispatcher and found.time >= self._named_at
        if is_renamed := is_other and not is_repeated:
            self._dispatcher, self._named_at = found.sender, found.time
        return OpenedEnvelope(address, found.body.encode(), is_repeated, is_renamed=is_renamed)

    def _own_key(self, name: str) -> UdpKey | None:
        return self._key if name == self._key.name else None


class DispatcherSealer:
    """A dispatcher's: any number of keys. `name` and `token_secret` are new at each start."""

    def __init__(self, keys: UdpKeys, name: str, token_secret: Secret) -> None:
        self._keys, self._name, self._token_secret = keys, name, token_secret
        self._signer, self._memory = Signer(), EnvelopeMemory()

    def name_for(self, address: UdpAddress) -> str:
        """Return the name by which an address knows this dispatcher."""
        token = self._token_secret.mac(address[0].encode(), str(address[1]).encode())
        return f"{self._name}.{token.hex()[:TOKEN_LENGTH]}"

    def sealed(self, packet: bytes, peer: Peer, *, now: float) -> bytes | None:
        assert isinstance(peer, KeyedPeer), f"{peer} has no key"
        key = self._keys(peer.key)
        return None if key is None else self._signed(packet, key, peer, now)

    def opened(self, envelope: bytes, address: UdpAddress, *, now: float) -> OpenedEnvelope:
        found, key = verified(envelope, self._keys)
        peer = KeyedPeer(*address, key.name, found.sender)
        self._memory.check_time(found, now=now)
        if found.receiver != self.name_for(address):
            if not found.body or found.sender.startswith(f"{self._name}."):
                raise EnvelopeFault(
                    EnvelopeReason.WRONG_RECEIVER, "a dispatcher's own packet; send none back"
                )
            raise Misaddressed(self._signed(b"", key, peer, now))
        is_repeated = self._memory.is_repeated(found, now=now)
        body = found.body.encode()
        return OpenedEnvelope(peer, body, is_repeated, is_proof=not is_repeated)

    def _signed(self, packet: bytes, key: UdpKey, peer: KeyedPeer, now: float) -> bytes:
        name = self.name_for((peer.host, peer.port))
        return self._signer.sign(packet, key, sender=name, receiver=peer.sender, now=now)
