"""Who a peer of the UDP dialogue is: an address, and where packets are signed, also who signed.

Two peers with different keys are different, though they share an address: neither may confirm
what was sent to the other, or complete its tasks. Pure.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

UdpAddress: TypeAlias = tuple[str, int]


class KeyedPeer(NamedTuple):
    """A peer that signs: where it is, the name of its key, and the name that it signs with."""

    host: str
    port: int
    key: str
    sender: str


Peer: TypeAlias = UdpAddress | KeyedPeer


def address_of(peer: Peer) -> UdpAddress:
    """Return where to send what is meant for a peer."""
    return peer[0], peer[1]
