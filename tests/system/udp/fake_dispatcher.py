"""A dispatcher that is none: the test itself, on a bare socket, says what it wants to peers."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from shunter.wire.udp.keys import Secret, shared_by_all
from shunter.wire.udp.peers import Peer, address_of
from shunter.wire.udp.seals import DispatcherSealer, Misaddressed
from system.yard import PATIENCE

Said = dict[str, Any]
Address = tuple[str, int]

WAIT = PATIENCE


class FakeDispatcher:
    """Packets are dicts, both ways. Every wait has a deadline.

    `hears` passes over heartbeats unless they are asked for; `sender` is whom it heard last.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.address: Address = self._socket.getsockname()
        self.sender: Address
        self.raw = b""

    def close(self) -> None:
        self._socket.close()

    def hears(self, method: str | None = None, *, within: float = WAIT, **params: Any) -> Said:
        """Return the next packet of this method with these params; None is an answer."""
        deadline = time.monotonic() + within
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no {method} {params} within {within:g} s")
            self._socket.settimeout(left)
            self.raw, self.sender = self._socket.recvfrom(65536)
            said = json.loads(self.raw)
            is_it = said.get("method") == method
            if is_it and params.items() <= said.get("params", {}).items():
                return dict(said)

    def hears_no(self, method: str | None = None, *, during: float = 0.3, **params: Any) -> bool:
        try:
            self.hears(method, within=during, **params)
        except TimeoutError:
            return True
        return False

    def says(self, packet: Said | bytes, to: Address | None = None) -> None:
        raw = packet if isinstance(packet, bytes) else json.dumps(packet).encode()
        self._socket.sendto(raw, to or self.sender)

    def confirms(self, packet: Said, to: Address | None = None, **more: Any) -> None:
        answer = {"packet_type": 2, "transmission_id": packet["transmission_id"], **more}
        self.says(answer, to)

    def performs(self, number: int, to: Address, **params: Any) -> Said:
        """Send a task, and return it, for more of the same."""
        task = {
            "method": "perform_task",
            "params": params,
            "packet_type": 1,
            "transmission_id": number,
        }
        self.says(task, to)
        return task


class SignedDispatcher(FakeDispatcher):
    """The same with a secret that it shares with its peers."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._sealer = DispatcherSealer(shared_by_all(Secret(secret)), "d", Secret(b"x" * 32))
        self._socket.settimeout(WAIT)

    def hears_signed(self) -> tuple[Said, Peer]:
        """Return what is said to us by our name, and by whom; tell it to who does not know it."""
        while True:
            envelope, self.sender = self._socket.recvfrom(65536)
            try:
                opened = self._sealer.opened(envelope, self.sender, now=time.time())
            except Misaddressed as elsewhere:
                self.says(elsewhere.hello)
            else:
                return json.loads(opened.body), opened.peer

    def says_signed(self, packet: Said, peer: Peer) -> None:
        sealed = self._sealer.sealed(json.dumps(packet).encode(), peer, now=time.time())
        assert sealed is not None
        self.says(sealed, address_of(peer))
