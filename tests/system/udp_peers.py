"""Clients and calculators of another make: bare sockets and JSON, as seed 003 has them."""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
import socket
import time
from typing import Any, Self

from system.yard import PATIENCE, Station

_given_out: set[int] = set()


def _bound_anew() -> socket.socket:
    """Return a socket on a port that no peer had before: a dispatcher remembers addresses."""
    while True:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        if port not in _given_out:
            _given_out.add(port)
            return bound
        bound.close()


class UdpPeer:
    """One socket. Every wait has a deadline."""

    def __init__(self, station: Station, *, wait: float = PATIENCE) -> None:
        self._target = ("127.0.0.1", station.udp_port)
        self._socket = _bound_anew()
        self._wait = wait
        self.raw = b""

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def say(self, packet: dict[str, Any] | bytes) -> None:
        raw = packet if isinstance(packet, bytes) else json.dumps(packet).encode()
        self._socket.sendto(raw, self._target)

    def hears(self, within: float | None = None) -> dict[str, Any]:
        """Return the next packet; as it came it is in `raw`."""
        self._socket.settimeout(self._wait if within is None else within)
        self.raw = self._socket.recv(65536)
        return dict(json.loads(self.raw))

    def hears_nothing(self, during: float = 0.4) -> bool:
        self._socket.settimeout(during)
        try:
            self._socket.recv(65536)
        except TimeoutError:
            return True
        return False

    def all_that_came(self) -> list[bytes]:
        """Return what waits to be read, as it came."""
        self._socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self._socket.recv(65536))
        except BlockingIOError:
            return found

    def confirm(self, packet: dict[str, Any]) -> None:
        self.say({"packet_type": 2, "transmission_id": packet["transmission_id"]})

    # ---- the seed's packets

    def add_task(self, task_id: Any, number: Any, **params: Any) -> None:
        self.say(
            {
                "method": "add_task",
                "params": {"task_id": task_id, **params},
                "packet_type": 1,
                "transmission_id": number,
            }
        )

    def heartbeat(self, status: str = "ready", **params: Any) -> None:
        self.say({"method": "heartbeat", "params": {"status": status, **params}, "packet_type": 0})

    def completed(self, task_id: Any, number: Any, **params: Any) -> None:
        self.say(
            {
                "method": "completed_task",
                "params": {"task_id": task_id, **params},
                "packet_type": 1,
                "transmission_id": number,
            }
        )

    def close(self) -> None:
        self._socket.close()


class SignedPeer(UdpPeer):
    """One that shares a key with the dispatcher, and signs as the description says."""

    def __init__(
        self, station: Station, secret: bytes, *, name: str = "a-peer", key: str = ""
    ) -> None:
        super().__init__(station)
        self._secret, self._name, self._key = secret, name, key
        self._numbers = itertools.count(1)
        self.receiver = ""
        """The name by which the dispatcher wants to be addressed from here."""

    def introduced(self) -> Self:
        """Ask the dispatcher for its name, and return when it is known."""
        while not self.receiver:
            UdpPeer.say(self, self.envelope({"method": "ping", "packet_type": 0}))
            with contextlib.suppress(TimeoutError):
                assert self._opened(0.5)["body"] == ""
        self.all_that_came()
        return self

    def say(self, packet: dict[str, Any] | bytes) -> None:
        super().say(self.envelope(packet))

    def say_as_it_is(self, packet: bytes) -> None:
        super().say(packet)

    def envelope(
        self, packet: dict[str, Any] | bytes, *, age: float = 0.0, **changes: str
    ) -> bytes:
        """Sign a packet, as if that had been so many seconds ago."""
        body = packet if isinstance(packet, bytes) else json.dumps(packet).encode()
        number, milliseconds = next(self._numbers), int((time.time() - age) * 1000)
        envelope = {
            "key": self._key,
            "sender": self._name,
            "receiver": self.receiver,
            "id": number,
            "time": milliseconds,
            "body": body.decode(),
            **changes,
        }
        return json.dumps({**envelope, "mac": self._mac(envelope)}).encode()

    def hears(self, within: float | None = None) -> dict[str, Any]:
        return dict(json.loads(self._opened(within)["body"]))

    def _opened(self, within: float | None) -> dict[str, Any]:
        envelope = super().hears(within)
        assert envelope["mac"] == self._mac(envelope)
        assert envelope["receiver"] == self._name
        self.receiver = envelope["sender"]
        return envelope

    def _mac(self, envelope: dict[str, Any]) -> str:
        fields = ("key", "sender", "receiver", "id", "time", "body")
        parts = (str(envelope.get(field, "")).encode() for field in fields)
        text = b"".join(b"%d:%b," % (len(part), part) for part in parts)
        return hmac.digest(self._secret, text, "sha256").hex()


def is_hello(raw: bytes) -> bool:
    """True if a packet tells no more than how the dispatcher wants to be addressed."""
    return json.loads(raw)["body"] == ""
