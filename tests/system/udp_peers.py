"""Clients and calculators of another make: bare sockets and JSON, as seed 003 has them."""

from __future__ import annotations

import json
import socket
from typing import Any

from system.yard import Station


class UdpPeer:
    """One socket. Every wait has a deadline."""

    def __init__(self, station: Station, *, wait: float = 10.0) -> None:
        self._target = ("127.0.0.1", station.udp_port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._wait = wait

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def say(self, packet: dict[str, Any] | bytes) -> None:
        raw = packet if isinstance(packet, bytes) else json.dumps(packet).encode()
        self._socket.sendto(raw, self._target)

    def hears(self, within: float | None = None) -> dict[str, Any]:
        """Return the next packet."""
        self._socket.settimeout(self._wait if within is None else within)
        return dict(json.loads(self._socket.recv(65536)))

    def hears_nothing(self, during: float = 0.4) -> bool:
        self._socket.settimeout(during)
        try:
            self._socket.recv(65536)
        except TimeoutError:
            return True
        return False

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
