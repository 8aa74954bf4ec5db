"""CURVE on ZeroMQ sockets: who listens is known by its key, and who comes shows one.

libzmq asks about each new connection over ZAP; the answer is the caller's. Which key a message came
under is told with it (`transport.Peer`), so that a key that was revoked since counts no more.
Must not know what a key may do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import zmq
from msgspec import Struct
from zmq.auth.asyncio import AsyncioAuthenticator
from zmq.auth.thread import ThreadAuthenticator

from shunter.model.key import CurvePair

DOMAIN = "shunter"
"""What all our sockets are called when libzmq asks about a peer."""

IsKnown = Callable[[str], bool]
Admits = Callable[[str], Awaitable[bool]]


class CurveListener(Struct, frozen=True):
    """The key pair of a socket that listens, and whose keys it lets in."""

    pair: CurvePair
    is_known: IsKnown


class CurveGate:
    """Answers, for all sockets of one context that listen, whether a peer may come in."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], admits: Admits) -> None:
        self._authenticator = AsyncioAuthenticator(context)
        self._authenticator.configure_curve_callback(DOMAIN, _Provider(admits))
        self._authenticator.start()

    def close(self) -> None:
        self._authenticator.stop()


class ThreadGate:
    """The same, for a context whose sockets are not on an event loop."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], is_known: IsKnown) -> None:
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(DOMAIN, _Provider(is_known))

    def close(self) -> None:
        self._authenticator.stop()


class _Provider:
    def __init__(self, answer: IsKnown | Admits) -> None:
        self._answer = answer

    def callback(self, _domain: str, public: bytes) -> bool | Awaitable[bool]:
        return self._answer(public.decode())


def listen_with(socket: zmq.Socket[bytes], pair: CurvePair) -> None:
    """Demand keys of whoever connects; before the socket is bound."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN.encode())


def connect_with(socket: zmq.Socket[bytes], pair: CurvePair) -> None:
    """Show a key, and talk to nobody but the holder of the server's."""
    assert pair.server is not None
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
    socket.setsockopt(zmq.CURVE_SERVERKEY, pair.server.encode())
