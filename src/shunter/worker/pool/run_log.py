"""What a child process and its offspring print, kept in memory for the job that runs.

The file is the child's standard output and error, and belongs to no disk. Every write is
appended, whoever writes it. The child takes the text when a run ends; the parent takes it when
the child has died, and cuts it back when a handler prints without end.
"""

from __future__ import annotations

import fcntl
import os

from shunter.model.job_log import end_of_log
from shunter.model.journal import LiveLog

OVERFLOW_BYTES = 8 << 20


class RunLog:
    """The open file. Of a long text, the beginning and the end are kept, `limit` bytes in all."""

    def __init__(self, fd: int, *, limit: int) -> None:
        self._fd, self._half = fd, limit // 2

    @staticmethod
    def create() -> int:
        """Return the descriptor of an empty one, for a child to inherit."""
        fd = os.memfd_create("shunter-run-log")
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR | os.O_APPEND)
        return fd

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def take(self) -> str:
        """Return the text and empty the file."""
        size = os.fstat(self._fd).st_size
        if size == 0:
            return ""
        text = self._read(size)
        os.ftruncate(self._fd, 0)
        return text

    def peek(self, most: int) -> LiveLog:
        """Return the end of the text, at most `most` bytes of it, and leave it there."""
        size = os.fstat(self._fd).st_size
        raw = os.pread(self._fd, min(size, most), max(0, size - most))
        return end_of_log(raw, printed=size, most=most)

    def trim(self) -> None:
        """Cut back a file that has grown beyond all measure; its end goes on growing."""
        if self.size > OVERFLOW_BYTES:
            os.ftruncate(self._fd, self._half)

    def _read(self, size: int) -> str:
        if size <= 2 * self._half:
            raw = os.pread(self._fd, size, 0)
        else:
            head = os.pread(self._fd, self._half, 0)
            tail = os.pread(self._fd, self._half, size - self._half)
            raw = b"%b\n[... %d bytes left out ...]\n%b" % (head, size - len(head + tail), tail)
        # A cut that crosses with the child's own leaves a hole, which reads as zeros.
        return raw.replace(b"\0", b"").decode(errors="replace")
