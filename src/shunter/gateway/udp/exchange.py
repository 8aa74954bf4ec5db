"""The dispatcher's end of the UDP dialogue: an endpoint with any number of peers.

What the two sides of the gateway share. Whoever begins a request gives two functions along: one
for the confirmation, one for when nobody confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from shunter.net.udp_endpoint import UdpEndpoint
from shunter.refusal_log import RefusalLog
from shunter.wire.udp.packets import AnswerError, Confirmation
from shunter.wire.udp.peers import Peer

NUMBER_BITS = 53


class PendingRequest(Struct, frozen=True):
    """What is to happen when a request is confirmed, perhaps with an error, or never."""

    confirmed: Callable[[AnswerError | None], None]
    gave_up: Callable[[], None]

    def answered(self, confirmation: Confirmation | None) -> None:
        """Do what is to happen."""
        if confirmation is None:
            self.gave_up()
        else:
            self.confirmed(confirmation.error)


class Exchange:
    """The endpoint, numbers for what is sent by it, and a log of what was refused."""

    endpoint: UdpEndpoint[PendingRequest]

    def __init__(
        self,
        refusals: RefusalLog,
        *,
        now: Callable[[], float],
        token_bytes: Callable[[int], bytes],
        max_packet_bytes: int,
    ) -> None:
        self.now = now
        self.max_packet_bytes = max_packet_bytes
        self._refusals = refusals
        self._token_bytes = token_bytes

    def number(self) -> int:
        """Return a transmission id that nobody used before, or can guess.

        It has as many bits as a number may have in JSON so that every language reads it as it is.
        """
        return int.from_bytes(self._token_bytes(8)) >> (64 - NUMBER_BITS)

    def complain(self, peer: Peer, reason: str, detail: str) -> None:
        self._refusals.note(f"{peer[0]}:{peer[1]}", f"udp_{reason}", detail)

    def close(self) -> None:
        if hasattr(self, "endpoint"):
            self.endpoint.close()
