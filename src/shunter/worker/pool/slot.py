"""One child process as its parent sees it: its shared state, its stream of frames, its run log.

It performs; what to do with a child is decided in `child_supervisor.py` and `process_pool.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from shunter.worker.pool.child import Orders
from shunter.worker.pool.child_channel import ChildChannel
from shunter.worker.pool.child_queue import ChildQueue
from shunter.worker.pool.frames import BlockedAt, Frame, FrameReader
from shunter.worker.pool.run_log import RunLog
from shunter.worker.pool.run_state import SharedRunState
from shunter.worker.pool.watchdog_process import WatchdogProcess

GROUP_SECONDS = 0.2
_READ_BYTES = 256 << 10


class ChildSettings(Struct, frozen=True, kw_only=True):
    """What every child of a pool is told."""

    app: str
    max_jobs: int
    max_megabytes: int | None
    log_limit: int
    live_log_bytes: int
    result_limit: int | None
    is_shared: bool = False


class BlockedLoop(Struct, frozen=True):
    """What keeps a shared child's loop from all its runs but one: that one, since when, where."""

    key: int
    since: float
    at: BlockedAt


class Slot:
    """A child process, from its start until `close`, which must follow its death."""

    def __init__(
        self, settings: ChildSettings, queue: ChildQueue, watchdog: WatchdogProcess, *, now: float
    ) -> None:
        self._watchdog = watchdog
        self.lane: ChildChannel | None = ChildChannel() if settings.is_shared else None
        with contextlib.ExitStack() as opened:
            if self.lane is not None:
                queue = self.lane
                opened.callback(queue.close)
            self._cell = watchdog.take_cell()
            opened.callback(watchdog.give_cell, self._cell)
            run_state_fd = SharedRunState.create()
            opened.callback(os.close, run_state_fd)
            self._run_log_fd = RunLog.create()
            opened.callback(os.close, self._run_log_fd)
            self._stream, theirs = socket.socketpair()
            opened.callback(self._stream.close)
            with theirs:
                self._process = _start(
                    settings, queue, watchdog, self._cell, theirs, run_state_fd, self._run_log_fd
                )
            opened.callback(self._process.wait)
            opened.callback(self._process.kill)
            self.pid = self._process.pid
            self.run_state = SharedRunState(run_state_fd)
            self.pidfd = os.pidfd_open(self.pid)
            opened.pop_all()
        os.close(run_state_fd)
        self.run_log = RunLog(self._run_log_fd, limit=settings.log_limit)
        self._stream.setblocking(False)
        self._reader = FrameReader()
        self.since = now
        self.is_ready = False
        self.is_retired = False
        self.is_dismissed = False
        self.has_ended = False
        self.killed_for = ""
        self.progress_seen = 0
        self.log_seen = (0, 0)
        self.given = 0
        self.blocked: BlockedLoop | None = None
        self.killed_for_key = 0
        self._unsent = bytearray()

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

    def answer(self, data: bytes) -> None:
        """Have an answer ready for the child; it goes by `flush_answers`."""
        self._unsent += data

    def flush_answers(self) -> None:
        """Send all answers that are ready; what does not fit, at the next call."""
        try:
            while self._unsent:
                del self._unsent[: self._stream.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it is gone
            self._unsent.clear()

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
        self._watchdog.give_cell(self._cell)
        status = self._process.wait()
        self._await_group()
        return status

    def _await_group(self) -> None:
        """Give what was killed a moment to be gone: then the end of the run may be told."""
        deadline = time.monotonic() + GROUP_SECONDS
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(self.pid, 0)
                time.sleep(0.001)

    def close(self) -> None:
        if self.lane is not None:
            self.lane.close()
        self._stream.close()
        self.run_state.close()
        os.close(self._run_log_fd)
        os.close(self.pidfd)

    def _kill_group(self) -> None:
        # Until it is reaped, the child's id and so its group's can't be another's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _start(
    settings: ChildSettings,
    queue: ChildQueue,
    watchdog: WatchdogProcess,
    watch_cell: int,
    stream: socket.socket,
    run_state_fd: int,
    run_log_fd: int,
) -> subprocess.Popen[bytes]:
    orders = Orders(
        app=settings.app,
        parent=os.getpid(),
        queue_fd=queue.exit_fd,
        stream_fd=stream.fileno(),
        run_state_fd=run_state_fd,
        watch_fd=watchdog.fd,
        watch_cell=watch_cell,
        max_jobs=settings.max_jobs,
        max_megabytes=settings.max_megabytes,
        log_limit=settings.log_limit,
        live_log_bytes=settings.live_log_bytes,
        result_limit=settings.result_limit,
        is_shared=settings.is_shared,
    )
    command = [sys.executable, "-P", "-m", "shunter.worker.pool.child"]
    return subprocess.Popen(  # noqa: S603
        [*command, msgspec.json.encode(orders).decode()],
        stdin=subprocess.DEVNULL,
        stdout=run_log_fd,
        stderr=run_log_fd,
        pass_fds=(queue.exit_fd, stream.fileno(), run_state_fd, watchdog.fd),
        process_group=0,
    )
