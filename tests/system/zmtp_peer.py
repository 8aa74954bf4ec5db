"""A peer that speaks ZMTP by hand, byte by byte, so that it may also speak it badly."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from shunter.model.key import CurvePair
from system.curve_end import CurveEnd


def greeting(mechanism: bytes) -> bytes:
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32)


GREETING = greeting(b"NULL")
MORE, LAST, COMMAND = 1, 0, 4
LONG = 2


OPEN: list[ZmtpPeer] = []
"""All that were made, to be closed by whoever made them."""


class ZmtpPeer:
    """One connection, made or accepted, with the greeting behind it."""

    def __init__(
        self,
        connection: socket.socket,
        kind: bytes,
        identity: bytes = b"",
        curve: CurvePair | None = None,
    ) -> None:
        self.connection = connection
        OPEN.append(self)
        connection.settimeout(20.0)
        properties = b"".join(
            bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
            for name, value in ((b"Socket-Type", kind), (b"Identity", identity))
        )
        self._curve = None if curve is None else CurveEnd(curve)
        if self._curve is None:
            connection.sendall(GREETING)
            self._command(b"\x05READY" + properties)
            self._hears(b"READY")
        else:
            connection.sendall(greeting(b"CURVE"))
            self._command(self._curve.hello())
            welcome = self._hears(b"WELCOME", CurveEnd.WELCOME_BYTES)
            self._command(self._curve.initiate(welcome, properties))
            self._hears(b"READY")

    def _command(self, body: bytes) -> None:
        self.connection.sendall(frame(body, COMMAND))

    def _hears(self, word: bytes, size: int = 0) -> bytes:
        """Read until a command has come; return so much of what is behind its name."""
        heard = b""
        while word not in heard or len(heard.partition(word)[2]) < size:
            more = self.connection.recv(4096)
            assert more, "the other side has hung up"
            heard += more
        return heard.partition(word)[2][:size]

    def frame(self, body: bytes, flags: int) -> bytes:
        """Write one frame, as this connection has to."""
        return frame(body, flags) if self._curve is None else self._curve.frame(body, flags)

    def sends_frames_until_cut_off(self, size: int, at_once: int, most: int) -> int:
        """Send frames that are never the last; return how many bytes went before it was cut off."""
        if self._curve is None:
            return self.sends_until_cut_off(at_once * frame(bytes(size), MORE), most)
        sent, body = 0, bytes(size)
        while sent < most:
            chunk = b"".join(self.frame(body, MORE) for _ in range(at_once))
            if not self.sends_until_cut_off(chunk, len(chunk)):
                break
            sent += len(chunk)
        return sent

    @classmethod
    def connected(
        cls, address: str, identity: bytes = b"", curve: CurvePair | None = None
    ) -> ZmtpPeer:
        """Connect to a ROUTER, as a DEALER; with a key, as one who has it."""
        scheme, _, where = address.partition("://")
        if scheme == "ipc":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(where)
        else:
            host, _, port = where.rpartition(":")
            connection = socket.create_connection((host, int(port)))
        return cls(connection, b"DEALER", identity, curve)

    def send(self, *frames: bytes) -> None:
        """Send one message."""
        *first, last = frames
        frames = [*(self.frame(it, MORE) for it in first), self.frame(last, LAST)]
        self.connection.sendall(b"".join(frames))

    def sends_until_cut_off(self, chunk: bytes, most: int) -> int:
        """Send the same bytes again and again; return how many went before the connection broke."""
        sent = 0
        try:
            while sent < most:
                self.connection.sendall(chunk)
                sent += len(chunk)
        except (OSError, TimeoutError):
            pass
        return sent

    def close(self) -> None:
        self.connection.close()


def frame(body: bytes, flags: int) -> bytes:
    """Write one frame."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body


def announced(size: int, flags: int = LAST) -> bytes:
    """Write the head of a frame of this size, which is to follow."""
    return bytes([flags | LONG]) + struct.pack(">Q", size)


def memory_megabytes(pid: int, field: str = "VmHWM") -> float:
    """Return how much memory a process takes, or has taken at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"{pid} has no {field}")
