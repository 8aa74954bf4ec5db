"""Where a measurement takes place: a folder on a disk, free ports, and the processes in it.

A measurement is a program of its own, so that what draws progress bars takes no time from it.
It tells its parent how far it has come, and in the end its figures, as lines of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

import psutil

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
STOP_SECONDS = 20.0
PORTS = (20_000, 32_000)


class Stage:
    """A temporary folder and all that was started in it; leaving ends both."""

    def __init__(self) -> None:
        # Not /tmp, which is memory on many machines, where an fsync costs nothing.
        place = "/var/tmp" if os.path.isdir("/var/tmp") else None
        self.folder = Path(tempfile.mkdtemp(prefix="shunter-bench-", dir=place))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            self.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(
        self,
        *command: str,
        python: str = sys.executable,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `python command...`; what it prints is kept in the folder."""
        with open(self.folder / f"{len(self._processes)}.log", "wb") as log:
            process = subprocess.Popen(
                [python, *command],
                cwd=REPOSITORY,
                env={**os.environ, **(environ or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask a process to end, and see to it that it does."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def check(self, process: subprocess.Popen[bytes]) -> None:
        """Raise with what a process has printed, if it has ended."""
        if process.poll() is not None:
            log = self.folder / f"{self._processes.index(process)}.log"
            raise RuntimeError(f"{process.args} ended early:\n{log.read_text(errors='replace')}")


class Dispatcher:
    """A real `shunter dispatcher`, on a file of its own or on a given store, and workers for it."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        store: str = "",
        *,
        has_udp: bool = False,
        key_file: Path | None = None,
    ) -> None:
        self._stage = stage
        front, back, http, udp = free_ports(4)
        self.frontend, self.backend = f"tcp://127.0.0.1:{front}", f"tcp://127.0.0.1:{back}"
        self.port, self.address = http, f"http://127.0.0.1:{http}"
        self.udp = "127.0.0.1", udp
        config = stage.folder / f"{name}.toml"
        config.write_text(
            f'[store]\nurl = "{store or f"sqlite:///{stage.folder / name}.db"}"\n'
            f'[zmq]\nfrontend = "{self.frontend}"\nbackend = "{self.backend}"\n'
            f"[http]\nport = {http}\n"
            f'[auth]\nkey_file = "{key_file or ""}"\n'
            f"[udp]\nenabled = {str(has_udp).lower()}\nclient_address.port = {udp}\n"
        )
        self._process = stage.start("-m", "shunter", "dispatcher", "--config", str(config))
        self._watched = psutil.Process(self._process.pid)

    def ready(self) -> Self:
        """Wait until it serves."""
        await_answer(self._stage, self._process, f"{self.address}/healthz")
        return self

    def start_worker(
        self, *others: Dispatcher, key_file: Path | None = None, app: str = "bench_app"
    ) -> subprocess.Popen[bytes]:
        """Start one worker with two slots, for this dispatcher and others over the same store."""
        app = str(Path(__file__).with_name(f"{app}.py"))
        served = [("--dispatcher", each.backend) for each in (self, *others)]
        command = ("-m", "shunter", "worker", "--app", f"{app}:app", "--max-jobs", "2")
        environ = {"SHUNTER__AUTH__KEY_FILE": str(key_file or "")}
        return self._stage.start(*command, *chain.from_iterable(served), environ=environ)

    def cpu_seconds(self) -> float:
        """How much processor time the dispatcher has used so far."""
        times = self._watched.cpu_times()
        return times.user + times.system

    def resident_megabytes(self) -> float:
        return self._watched.memory_info().rss / 1e6


def await_answer(stage: Stage, process: subprocess.Popen[bytes], address: str) -> None:
    """Wait until a server that was started answers a GET."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        stage.check(process)
        try:
            with urllib.request.urlopen(address, timeout=1.0):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"no answer from {address} within {START_SECONDS:g} s")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on just now.

    They are lower than those that the system picks, so that no connection takes one meanwhile.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def say(at: str, done: int, total: int) -> None:
    """Tell the parent how far this measurement has come."""
    print(json.dumps({"at": at, "done": done, "total": total}), flush=True)


def conclude(**figures: Any) -> None:
    """Tell the parent what was measured."""
    print(json.dumps({"figures": figures}), flush=True)


def listen(command: Sequence[str], *, seconds: float) -> Iterator[dict[str, Any]]:
    """Run a measurement and yield what it says; it is ended after so many seconds."""
    with _running(["timeout", f"{seconds:g}", *command]) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
        if process.wait():
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def sizes(description: str, **defaults: int | str) -> argparse.Namespace:
    """Read how much to measure from the command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help="%(default)s")
    return parser.parse_args()


def peak_bytes(pid: int) -> int:
    """Return the most that a process has had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def percentile(seconds: Sequence[float], part: float) -> float:
    """Return the value below which this part of all lies, in milliseconds."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000
