"""Keys of UDP peers: what a packet is signed with, and what its sender may do.

A dispatcher looks a key up by the name in the packet, each time anew, so that one that was revoked
is of no use from then on. A secret that all peers share is a key like others: its name is empty,
and it may do everything. Where keys come from is not known here. Pure.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

MIN_SECRET_BYTES = 16


class Secret:
    """What two peers share; it is never shown."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_SECRET_BYTES:
            raise ValueError(
                f"a secret of {len(key)} bytes is too short; use at least {MIN_SECRET_BYTES}, "
                "for example from `openssl rand -hex 32`"
            )
        self._key = key

    @classmethod
    def of_file(cls, text: bytes) -> Secret:
        """Return the secret in a file, without the line break that most files end with."""
        return cls(text.rstrip(b"\r\n"))

    def mac(self, *parts: bytes) -> bytes:
        """Return the HMAC-SHA256 of these, written such that none runs into the next."""
        return hmac.digest(self._key, b"".join(b"%d:%b," % (len(p), p) for p in parts), "sha256")


class UdpKey(Struct, frozen=True):
    """A key and its rights: to add tasks, and to perform those of some types."""

    name: str
    secret: Secret
    may_add: bool = True
    may_perform: bool = True
    types: frozenset[str] | None = None
    """What it may perform; None: all types."""
    namespace: str = ""
    """Of the tasks that it adds."""

    def may_perform_all(self, types: Iterable[str]) -> bool:
        """True if a calculator with this key may do tasks of all these types."""
        return self.may_perform and (self.types is None or self.types.issuperset(types))


UdpKeys: TypeAlias = Callable[[str], UdpKey | None]
"""Looks up a live key by its name; None where there is none, or not any more."""


def shared_by_all(secret: Secret) -> UdpKeys:
    """Return the keys of peers that have one secret."""
    key = UdpKey("", secret)
    return lambda name: None if name else key
