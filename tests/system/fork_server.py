"""Shunter's commands as forks of a process that has imported them, for most of a start is that.

A fork becomes what `python -m shunter ...` is: it has the words, environment, folder and streams
it was given, and ends as a program does. The server beside each of pytest's processes forks, waits
for what it forked, and tells how that ended; when pytest is gone it kills them all. A worker has
its first children likewise: forks that wait for their orders. With SHUNTER_LONG=1, in another
environment of Python's own, or on another host, commands are started as users start them; the
tests of the guides and of the pool do so always.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

_REQUEST_BYTES = 1 << 18
_MOST_WAITING = 4
_IMPORTED = (
    "shunter.cli.by_udp",
    "shunter.cli.config",
    "shunter.cli.flow_run",
    "shunter.cli.job_listings",
    "shunter.cli.dispatcher_process",
    "shunter.cli.job_submission",
    "shunter.cli.worker_process",
    "shunter.flow.runners.engines.engine",
    "shunter.net.checked_names",
    "shunter.store.mongo",
    "shunter.store.sqlite",
    "shunter.store.sqlite.doctor",
    "shunter.worker.http.host",
    "shunter.worker.pool.child",
    # what these import when they first need it
    "aiohttp",
    "encodings.utf_8_sig",
    "importlib.readers",
    "uvicorn.lifespan.off",
)


class Forked:
    """One process, as `subprocess.Popen` shows it."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ended(self.pid, within=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._server.ended(self.pid, within=timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(["shunter"], timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkServer:
    """The server as tests see it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._lock = threading.Lock()
        self._born: list[int] = []
        self._ends: dict[int, int] = {}

    def start(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        streams: Sequence[int],
        children: int,
    ) -> Forked:
        """Fork a command; `streams` are its standard input, output and error."""
        asked = json.dumps([list(words), dict(environ), str(folder), children]).encode()
        with self._lock:
            socket.send_fds(self._socket, [asked], streams)
            while not self._born:
                self._hear(None)
            return Forked(self, self._born.pop())

    def ended(self, pid: int, *, within: float | None) -> int | None:
        """Return how it ended, as `Popen.returncode` says it; None if it has not yet."""
        deadline = None if within is None else time.monotonic() + within
        while True:
            with self._lock:
                if pid in self._ends:
                    return self._ends.pop(pid)
                left = 0.1 if deadline is None else deadline - time.monotonic()
                heard = self._hear(max(0.0, min(left, 0.1)))
            if not heard and deadline is not None and time.monotonic() >= deadline:
                return None

    def close(self) -> None:
        """Let the server end, and with it all that it has forked."""
        self._socket.close()
        self._process.wait()

    def _hear(self, within: float | None) -> bool:
        """Take in one message, if there is one within so many seconds."""
        if not select.select([self._socket], [], [], within)[0]:
            return False
        told = self._socket.recv(1024)
        assert told, "the fork server is gone"
        pid, code = json.loads(told)
        if code is None:
            self._born.append(pid)
        else:
            self._ends[pid] = code
        return True


@functools.cache
def _server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


def start(
    words: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str] | None = None,
    inside: Sequence[str] = (),
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    children: int = 0,
) -> Forked | subprocess.Popen[bytes]:
    """Start `shunter WORDS`, as a fork where that makes no difference.

    `inside` are words that run it somewhere else, `stdout` and `stderr` descriptors or DEVNULL,
    `children` how many a worker starts at once.
    """
    beside = environ or {}
    if inside or _is_python(beside) or os.environ.get("SHUNTER_LONG"):
        return subprocess.Popen(
            [*inside, sys.executable, "-m", "shunter", *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env={**os.environ, **beside},
        )
    with open(os.devnull, "r+b") as null:
        streams = [null.fileno() if each < 0 else each for each in (-1, stdout, stderr)]
        return _server().start(words, {**os.environ, **beside}, folder, streams, children)


def _is_python(environ: Iterable[str]) -> bool:
    """True if the interpreter itself goes by one of these variables."""
    return any(each.startswith("PYTHON") for each in environ)


class _Nursery:
    """The server: forks, waits, tells."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._children: set[int] = set()
        self._woken, wakes = os.pipe()
        for end in (self._woken, wakes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wakes)
        self._wakes = wakes

    def serve(self) -> Callable[[], None] | None:
        """Return what to do in each fork, and None in the server, at its end."""
        while True:
            ready, _, _ = select.select([self._channel, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 1024)
                self._reap()
            if self._channel in ready:
                asked, streams, _, _ = socket.recv_fds(self._channel, _REQUEST_BYTES, 3)
                if not asked:
                    return self._end()
                pid = os.fork()
                if not pid:
                    return self._become(*json.loads(asked), streams)
                for each in streams:
                    os.close(each)
                self._children.add(pid)
                self._tell(pid, None)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._children.discard(pid)
            self._tell(pid, os.waitstatus_to_exitcode(status))

    def _tell(self, pid: int, code: int | None) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps([pid, code]).encode())

    def _end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)

    def _become(
        self,
        words: list[str],
        environ: dict[str, str],
        folder: str,
        children: int,
        streams: list[int],
    ) -> Callable[[], None]:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._channel.close()
        os.close(self._woken)
        os.close(self._wakes)
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        waiting = _WaitingChildren()
        for _ in range(min(children, _MOST_WAITING)):
            if orders := waiting.fork():
                return partial(_be_child, orders)
        waiting.take_the_place_of_popen()
        sys.path.insert(0, folder)
        return partial(_be_command, words)


class _WaitingChildren:
    """A worker's children before it knows of them: forked while it has no threads."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, socket.socket]] = []

    def fork(self) -> str:
        """Fork a child; return its orders in the child, once it has some, and else nothing."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid:
            theirs.close()
            self._waiting.append((pid, ours))
            return ""
        for each in (ours, *(channel for _, channel in self._waiting)):
            each.close()
        told, fds, _, _ = socket.recv_fds(theirs, _REQUEST_BYTES, 8)
        if not told:  # the worker is gone, or wants fewer
            os._exit(0)
        orders, environ, folder, numbers = json.loads(told)
        theirs.close()
        _renumber(fds, numbers)
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        return str(orders)

    def take_the_place_of_popen(self) -> None:
        """Have the worker find its children here."""
        if self._waiting:
            from shunter.worker.pool import slot

            slot.subprocess = SimpleNamespace(  # type: ignore[assignment]
                Popen=self._popen, DEVNULL=subprocess.DEVNULL
            )

    def _popen(
        self, command: Sequence[str], *, stdout: int, stderr: int, pass_fds: Any, **how: Any
    ) -> _Child | subprocess.Popen[bytes]:
        if not self._waiting:
            return subprocess.Popen(command, stdout=stdout, stderr=stderr, pass_fds=pass_fds, **how)
        pid, channel = self._waiting.pop(0)
        os.setpgid(pid, pid)
        with channel:
            numbers = [1, 2, *pass_fds]
            told = json.dumps([command[-1], dict(os.environ), os.getcwd(), numbers]).encode()
            socket.send_fds(channel, [told], [stdout, stderr, *pass_fds])
        return _Child(pid)


class _Child:
    """What a slot uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def _renumber(fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors these numbers, whichever they have now."""
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100 + max(numbers)) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(aside, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


def _be_child(orders: str) -> None:
    from shunter.worker.pool import child

    sys.exit(child.main(msgspec.json.decode(orders, type=child.Orders)))


def _be_command(words: list[str]) -> None:
    sys.argv[1:] = words
    runpy.run_module("shunter", run_name="__main__", alter_sys=True)


def _main() -> None:
    del sys.path[0]  # that of this file, which no command has
    for name in _IMPORTED:
        __import__(name)
    _prepare_commands()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        calling = _Nursery(channel).serve()
    if calling is not None:
        calling()


def _prepare_commands() -> None:
    """Have the library of commands do what it does when the first one is called, and only once."""
    from typer import main as typer

    from shunter.cli.main import app

    command = typer.get_command(app)
    typer.get_command = lambda _: command
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        app(["jobs", "--help"], standalone_mode=False)


def run(
    words: Sequence[str],
    *,
    folder: Path,
    within: float,
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `shunter WORDS` to its end, as `subprocess.run` does; kill it after `within` seconds."""
    with contextlib.ExitStack() as stack:
        texts = []
        for name in ("stdout", "stderr"):
            fd = os.memfd_create(name)
            stack.callback(os.close, fd)
            texts.append(fd)
        process = start(words, folder=folder, environ=environ, stdout=texts[0], stderr=texts[1])
        try:
            code = process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out, err = (_text_of(fd) for fd in texts)
        return subprocess.CompletedProcess(list(words), code, out, err)


def _text_of(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    _main()
