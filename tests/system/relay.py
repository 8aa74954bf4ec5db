"""A cable between a peer and its dispatcher that a test can cut, mend, or make slow."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from urllib.parse import urlsplit

from system.yard import free_port

CHUNK_BYTES = 65536
MANY_BYTES = 1 << 20


class Relay:
    """Forwards TCP both ways; while cut it forwards nothing, closes nothing and loses nothing.

    With `bytes_per_second` it is a slow link, each way, with little memory of its own. `carried`
    counts bytes.
    """

    def __init__(self, target: str, *, bytes_per_second: float | None = None) -> None:
        there = urlsplit(target)
        self._target = (there.hostname or "", there.port or 0)
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        self._listener = socket.create_server(("127.0.0.1", port))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._others: dict[socket.socket, socket.socket] = {}
        self._outward: set[socket.socket] = set()
        self._is_cut = {"out": False, "back": False}
        self._bytes_per_second = bytes_per_second
        self._free_at = {"out": 0.0, "back": 0.0}
        self.carried = {"out": 0, "back": 0}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self, *, only: str = "") -> None:
        """Hold back everything; or only what goes `out` to the dispatcher, or `back`."""
        for way in self._is_cut:
            self._is_cut[way] = only in ("", way)

    def mend(self) -> None:
        """Forward again, and first of all what was held back."""
        self._is_cut = {"out": False, "back": False}

    def close(self) -> None:
        self._is_closed = True
        self._thread.join(10.0)
        for one in (self._listener, *self._others):
            one.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._is_closed:
            busy = False
            for key, _ in self._selector.select(0.05):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                if source is self._listener:
                    if not any(self._is_cut.values()):
                        self._accept()
                        busy = True
                elif self._may_forward(way := "out" if source in self._outward else "back"):
                    self._forward(source, way)
                    busy = True
            if not busy:
                time.sleep(0.005)

    def _may_forward(self, way: str) -> bool:
        return not self._is_cut[way] and time.monotonic() >= self._free_at[way]

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target, timeout=5.0)
        except OSError:
            near.close()
            return
        self._outward.add(near)
        for one, other in ((near, far), (far, near)):
            if self._bytes_per_second is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK_BYTES)
            self._others[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, source: socket.socket, way: str) -> None:
        other = self._others.get(source)
        if other is None:
            return
        try:
            data = source.recv(CHUNK_BYTES if self._bytes_per_second else MANY_BYTES)
            if data:
                self.carried[way] += len(data)
                if self._bytes_per_second is not None:
                    seconds = len(data) / self._bytes_per_second
                    self._free_at[way] = max(time.monotonic(), self._free_at[way]) + seconds
                other.sendall(data)
                return
        except OSError:
            pass
        for one in (source, other):
            self._selector.unregister(one)
            del self._others[one]
            self._outward.discard(one)
            one.close()
