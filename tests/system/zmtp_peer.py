"""A peer that speaks ZMTP by hand, byte by byte, so that it may also speak it badly."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE, LAST, COMMAND = 1, 0, 4
LONG = 2


OPEN: list[ZmtpPeer] = []
"""All that were made, to be closed by whoever made them."""


class ZmtpPeer:
    """One connection, made or accepted, with the greeting behind it."""

    def __init__(self, connection: socket.socket, kind: bytes, identity: bytes = b"") -> None:
        self.connection = connection
        OPEN.append(self)
        connection.settimeout(20.0)
        connection.sendall(GREETING)
        properties = (b"Socket-Type", kind), (b"Identity", identity)
        ready = b"\x05READY" + b"".join(
            bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
            for name, value in properties
        )
        connection.sendall(bytes([COMMAND, len(ready)]) + ready)
        heard = b""
        while b"READY" not in heard:
            more = connection.recv(4096)
            assert more, "the other side has hung up"
            heard += more

    @classmethod
    def connected(cls, address: str, identity: bytes = b"") -> ZmtpPeer:
        """Connect to a ROUTER, as a DEALER."""
        scheme, _, where = address.partition("://")
        if scheme == "ipc":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(where)
        else:
            host, _, port = where.rpartition(":")
            connection = socket.create_connection((host, int(port)))
        return cls(connection, b"DEALER", identity)

    def send(self, *frames: bytes) -> None:
        """Send one message."""
        *first, last = frames
        self.connection.sendall(b"".join([*(frame(it, MORE) for it in first), frame(last, LAST)]))

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
