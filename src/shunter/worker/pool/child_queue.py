"""The jobs that wait for a free child process.

The queue is a socket that all children read from: the kernel hands each message to one that is
idle, so a child that is stuck holds up nobody. What does not fit into the socket waits here,
behind it. The parent has the reading end too, and takes back what no child has taken.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections import deque
from struct import Struct as Packer

import msgspec
from msgspec.structs import replace

from shunter.wire.messages import Assignment

INLINE_BYTES = 64 << 10
"""A larger payload goes beside the message, as an open file."""

MESSAGE_BYTES = INLINE_BYTES + (24 << 10)
"""The rest of a job is its id, type and run, and the names of errors in its retry policy."""

KEY = Packer("=Q")

_SOCKET_BYTES = 1 << 20
_SHORTAGES = {errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS, errno.EMFILE, errno.ENFILE}
_encode = msgspec.msgpack.Encoder().encode
_pack = KEY.pack

read_job = msgspec.msgpack.Decoder(Assignment).decode


class ChildQueue:
    """First in, first out."""

    def __init__(self) -> None:
        self._entry, self._exit = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._entry.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._entry.setblocking(False)
        self._behind: deque[tuple[int, Assignment]] = deque()

    @property
    def exit_fd(self) -> int:
        """The end that children read from; it must stay in blocking mode, which they share."""
        return self._exit.fileno()

    @property
    def entry_fd(self) -> int:
        """The end to watch for room, when `pump` says so."""
        return self._entry.fileno()

    @property
    def unsent(self) -> int:
        """How many wait behind the socket."""
        return len(self._behind)

    def put(self, key: int, job: Assignment) -> None:
        """Add a job at the end; `pump` sends it on."""
        self._behind.append((key, job))

    def pump(self) -> bool:
        """Send on as much as there is room for; tell whether to watch for more room.

        Where the system is short of something else, only a later try can help.
        """
        behind, send = self._behind, self._entry.send
        try:
            while behind:
                key, job = behind[0]
                if len(job.payload) + len(job.parents) > INLINE_BYTES:
                    self._send_beside(key, job)
                else:
                    send(_pack(key) + _encode(job))
                behind.popleft()
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
        return False

    def drain(self) -> list[int]:
        """Take out all that no child has taken, and return the keys in their order."""
        keys: list[int] = []
        while self._exit.fileno() >= 0:
            try:
                head = self._exit.recv(KEY.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not head:
                break
            keys.append(KEY.unpack(head)[0])
        keys += [key for key, _ in self._behind]
        self._behind.clear()
        return keys

    def end(self) -> None:
        """Send no more: children that find the queue empty leave."""
        self._entry.close()

    def close(self) -> None:
        self._entry.close()
        self._exit.close()

    def _send_beside(self, key: int, job: Assignment) -> None:
        fd = os.memfd_create("shunter-payload")
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(job.payload)
                file.write(job.parents)
            bare = replace(job, payload=b"", parents=_pack(len(job.payload)))
            message = _pack(key) + _encode(bare)
            socket.send_fds(self._entry, [message], [fd])
        finally:
            os.close(fd)


def read_beside(passed: bytes, job: Assignment) -> Assignment:
    """Read what came as an open file, whose descriptor was passed, and close it.

    It has the payload, and behind that how the parents ended; the message says where.
    """
    with open(int.from_bytes(passed[:4], sys.byteorder), "rb") as file:
        file.seek(0)
        both = file.read()
    (size,) = KEY.unpack(job.parents)
    return replace(job, payload=both[:size], parents=both[size:])
