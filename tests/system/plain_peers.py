"""A worker and a client that know only the seeds: raw sockets, an empty frame, and bytes."""

from __future__ import annotations

import time
from typing import Any

import zmq

from shunter.model.key import CurvePair
from shunter.net.curve import connect_with
from system.yard import PATIENCE


class Peer:
    """One socket. Every wait has a deadline."""

    def __init__(
        self,
        context: zmq.Context[Any],
        kind: int,
        address: str,
        identity: bytes,
        reconnect_after: float = 0.1,
        curve: CurvePair | None = None,
    ) -> None:
        self.socket = context.socket(kind)
        self.socket.linger = 0
        if curve is not None:
            connect_with(self.socket, curve)
        self.socket.setsockopt(zmq.RECONNECT_IVL, int(reconnect_after * 1000))
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(address)
        self._has_delimiter = kind == zmq.DEALER

    def send(self, *frames: bytes) -> None:
        """Send these frames and nothing else."""
        self.socket.send_multipart(frames)

    def say(self, body: bytes) -> None:
        self.send(b"", body) if self._has_delimiter else self.send(body)

    def hears(self, within: float = PATIENCE) -> list[bytes]:
        """Return the next message, with its delimiter taken off."""
        frames = self.hears_anything(within)
        assert frames is not None, f"nothing came within {within:g} s"
        return frames

    def hears_anything(self, within: float) -> list[bytes] | None:
        if not self.socket.poll(int(within * 1000)):
            return None
        frames: list[bytes] = self.socket.recv_multipart()
        if not self._has_delimiter:
            return frames
        assert frames[0] == b"", frames
        return frames[1:]


class PlainWorker(Peer):
    """A DEALER on the backend."""

    def becomes_ready(self) -> PlainWorker:
        self.say(b"READY")
        assert self.hears() == [b"PONG"]
        return self

    def takes_job(self, within: float = PATIENCE) -> bytes:
        """Return the next message that is not a PONG."""
        job = self.takes_job_if_any(within)
        assert job is not None, f"no job came within {within:g} s"
        return job

    def takes_job_if_any(self, within: float) -> bytes | None:
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            match self.hears_anything(left):
                case [b"PONG"]:
                    continue
                case [job]:
                    return job
                case None:
                    return None
                case other:
                    raise AssertionError(f"not a plain message: {other!r}")
        return None


class PlainPeers:
    """Makes peers of one dispatcher, and closes them."""

    def __init__(self, frontend: str, backend: str) -> None:
        self._frontend, self._backend = frontend, backend
        self._context: zmq.Context[Any] = zmq.Context()
        self._made: list[Peer] = []

    def worker(self, identity: bytes = b"") -> PlainWorker:
        worker = PlainWorker(self._context, zmq.DEALER, self._backend, identity)
        self._made.append(worker)
        return worker

    def client(
        self, identity: bytes = b"", kind: int = zmq.DEALER, reconnect_after: float = 0.1
    ) -> Peer:
        client = Peer(self._context, kind, self._frontend, identity, reconnect_after)
        self._made.append(client)
        return client

    def req_client(self) -> Peer:
        return self.client(kind=zmq.REQ)

    def close(self) -> None:
        for peer in self._made:
            peer.socket.close()
        self._context.term()
