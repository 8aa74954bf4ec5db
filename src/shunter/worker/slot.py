"""One child process as its parent sees it: its board, its stream of frames, its transcript.

It performs; what to do with a child is decided in `nursery.py` and `crew.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from shunter.worker.board import Board
from shunter.worker.child import Orders
from shunter.worker.frames import Frame, FrameReader
from shunter.worker.hopper import Hopper
from shunter.worker.pool.watch import Watch
from shunter.worker.transcript import Transcript

_READ_BYTES = 256 << 10


class ChildSettings(Struct, frozen=True, kw_only=True):
    """What every child of a crew is told."""

    app: str
    max_jobs: int
    max_megabytes: int | None
    log_limit: int
    result_limit: int | None


class Slot:
    """A child process, from its start until `close`, which must follow its death."""

    def __init__(
        self, settings: ChildSettings, hopper: Hopper, watch: Watch, *, now: float
    ) -> None:
        self._watch = watch
        with contextlib.ExitStack() as opened:
            self._cell = watch.take_cell()
            opened.callback(watch.give_cell, self._cell)
            board_fd = Board.create()
            opened.callback(os.close, board_fd)
            self._transcript_fd = Transcript.create()
            opened.callback(os.close, self._transcript_fd)
            self._stream, theirs = socket.socketpair()
            opened.callback(self._stream.close)
            with theirs:
                self._process = _start(
                    settings, hopper, watch, self._cell, theirs, board_fd, self._transcript_fd
                )
            opened.callback(self._process.wait)
            opened.callback(self._process.kill)
            self.pid = self._process.pid
            self.board = Board(board_fd)
            self.pidfd = os.pidfd_open(self.pid)
            opened.pop_all()
        os.close(board_fd)
        self.transcript = Transcript(self._transcript_fd, limit=settings.log_limit)
        self._stream.setblocking(False)
        self._reader = FrameReader()
        self.since = now
        self.is_ready = False
        self.is_retired = False
        self.is_dismissed = False
        self.has_ended = False
        self.killed_for = ""
        self.progress_seen = 0

    @property
    def stream_fd(self) -> int:
        return self._stream.fileno()

    def read(self) -> Iterator[Frame] | None:
        """Return the frames that have arrived, or None where nothing has."""
        try:
            data = self._stream.recv(_READ_BYTES)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            data = b""
        self.has_ended = not data
        return self._reader.feed(data) if data else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child itself."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def kill(self, reason: str) -> None:
        """Kill the child and everything it started in its process group."""
        self.killed_for = self.killed_for or reason
        self._kill_group()

    def dismiss(self, reason: str) -> None:
        """Kill the child through no fault of its own."""
        self.is_dismissed = True
        self.kill(reason)

    def reap(self) -> int:
        """Take leave of the dead child and return its exit status; its offspring go with it."""
        self._kill_group()
        self._watch.give_cell(self._cell)
        return self._process.wait()

    def close(self) -> None:
        self._stream.close()
        self.board.close()
        os.close(self._transcript_fd)
        os.close(self.pidfd)

    def _kill_group(self) -> None:
        # Until it is reaped, the child's id and so its group's can't be another's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _start(
    settings: ChildSettings,
    hopper: Hopper,
    watch: Watch,
    watch_cell: int,
    stream: socket.socket,
    board_fd: int,
    transcript_fd: int,
) -> subprocess.Popen[bytes]:
    orders = Orders(
        app=settings.app,
        parent=os.getpid(),
        queue_fd=hopper.exit_fd,
        stream_fd=stream.fileno(),
        board_fd=board_fd,
        watch_fd=watch.fd,
        watch_cell=watch_cell,
        max_jobs=settings.max_jobs,
        max_megabytes=settings.max_megabytes,
        log_limit=settings.log_limit,
        result_limit=settings.result_limit,
    )
    command = [sys.executable, "-P", "-m", "shunter.worker.child"]
    return subprocess.Popen(  # noqa: S603
        [*command, msgspec.json.encode(orders).decode()],
        stdin=subprocess.DEVNULL,
        stdout=transcript_fd,
        stderr=transcript_fd,
        pass_fds=(hopper.exit_fd, stream.fileno(), board_fd, watch.fd),
        process_group=0,
    )
