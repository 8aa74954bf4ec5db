"""The socket that HTTP is served on."""

from __future__ import annotations

import socket

from shunter.net.web.server import bound_listener


def test_answers_are_sent_without_delay() -> None:
    """Asyncio turns off Nagle's algorithm only where the socket names its protocol.

    Without it every answer waits 40 ms for the client's delayed acknowledgement.
    """
    with bound_listener("127.0.0.1", 0, key="http.port", remedy="another") as listener:
        assert listener.proto == socket.IPPROTO_TCP
