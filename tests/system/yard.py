"""Real dispatchers and workers, as processes of their own, for tests that kill them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from shunter.client import Client
from system import fork_server
from system.witness import whole_lines

PATIENCE = 40.0
"""How long a test waits for what must happen; the machine may be busy with other things."""

WITNESS_APP = f"{Path(__file__).parent / 'witness_app.py'}:app"

QUICK_LEASE = {
    "lease.heartbeat": 0.2,
    "lease.worker_gives_up": 2.0,
    "lease.kill_within": 0.5,
    "lease.dispatcher_takes_over": 3.0,
}
"""Soon over, and yet kept by a worker that a busy machine lets stand still for a second."""

ANYBODY = ssl._create_unverified_context()
"""Whether somebody answers is all that is asked for with it."""

T = TypeVar("T")


def until(condition: Callable[[], T], *, within: float = PATIENCE, what: str = "") -> T:
    """Ask again until the answer is true; fail after `within` seconds.

    What takes long to ask is asked less often: others need the machine too.
    """
    deadline = time.monotonic() + within
    while True:
        asked_at = time.monotonic()
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what or condition}; last: {answer!r}")
        time.sleep(min(max(0.02, 9 * (time.monotonic() - asked_at)), 0.3))


_given_out: set[int] = set()


def free_port() -> int:
    """Return a port that nothing listens on and that was not given out before.

    It is none that the system gives to others meanwhile, or that tests beside this one take: each
    of pytest's processes has a stretch of its own, below those of the system.
    """
    lane = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12
    while True:
        port = 10_240 + 1_870 * lane + random.randrange(1_870)
        if port in _given_out:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given_out.add(port)
            return port


def is_watchdog(pid: int) -> bool:
    """True if this process is a worker's watchdog, not a child that does jobs."""
    with contextlib.suppress(OSError):
        return b"watchdog.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def is_alive(pid: int) -> bool:
    """True if there is such a process, and it has not just ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Process:
    """One process of ours, with its standard error in a file."""

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        name: str,
        env: dict[str, str],
        *,
        inside: Sequence[str] = (),
        children: int = 0,
    ) -> None:
        self.name = name
        self.errors = folder / f"{name}.stderr"
        with self.errors.open("ab") as errors:
            self._popen = fork_server.start(
                words,
                folder=folder,
                environ=env,
                inside=inside,
                stderr=errors.fileno(),
                children=children,
            )
        self.was_killed = False

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.was_killed = True
        self._popen.kill()
        self._popen.wait(PATIENCE)

    def terminate(self) -> int:
        """Ask it to leave, and return its exit code."""
        self._popen.terminate()
        return self.exit_code()

    def exit_code(self) -> int:
        return self._popen.wait(PATIENCE)

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def logged(self, **fields: Any) -> list[dict[str, Any]]:
        """Return its log lines that have these fields."""
        found = []
        for line in whole_lines(self.errors):
            if line.startswith("{"):
                entry = json.loads(line)
                if all(entry.get(key) == value for key, value in fields.items()):
                    found.append(entry)
        return found


class Station:
    """A dispatcher's addresses, store and settings; its process may come and go."""

    def __init__(self, yard: Yard, name: str, settings: dict[str, Any]) -> None:
        self._yard, self.name = yard, name
        self.http_port = free_port()
        self.udp_port = free_port()
        self.frontend = f"tcp://127.0.0.1:{free_port()}"
        self.backend = f"tcp://127.0.0.1:{free_port()}"
        self.settings = {
            "store.url": f"sqlite:///{yard.folder / name}.db",
            "zmq.frontend": self.frontend,
            "zmq.backend": self.backend,
            "http.port": self.http_port,
            "udp.client_address.port": self.udp_port,
            **settings,
        }
        self.process: Process
        self._clock: Path | None = None

    def set_clock(self, *, ahead: float) -> None:
        """Move the time of day as the dispatcher sees it; before it starts, or while it runs."""
        self._clock = self._yard.folder / f"{self.name}.clock"
        beside = self._clock.with_suffix(".new")
        beside.write_text(str(ahead))
        beside.rename(self._clock)

    def start(self, *, inside: Sequence[str] = ()) -> Station:
        config = self._yard.config(self.name, self.settings)
        words = ("dispatcher", "--config", str(config))
        self.process = self._yard.process(words, self.name, clock=self._clock, inside=inside)
        until(lambda: self.health() == 200 or not self.process.is_alive, what="healthz")
        assert self.process.is_alive, self.process.said()
        return self

    def restart(self) -> Station:
        """Kill it in the middle of whatever it does, and start it on the same store."""
        self.process.kill()
        return self.start()

    @property
    def url(self) -> str:
        scheme = "https" if "http.tls_certificate" in self.settings else "http"
        return f"{scheme}://{self.settings.get('http.host', '127.0.0.1')}:{self.http_port}"

    def health(self) -> int:
        """Return the status of /healthz, 0 where nobody listens."""
        url = f"{self.url}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=5.0, context=ANYBODY) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def counters(self) -> dict[str, int]:
        with Client(self.frontend, timeout=PATIENCE) as client:
            return client.standing().counters


class Yard:
    """Starts processes in a folder, and sees to it that none outlives the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.witness = folder / "witness.log"
        self._processes: list[Process] = []
        self._clients: list[Client] = []
        self._count = 0

    def config(self, name: str, settings: dict[str, Any]) -> Path:
        """Write settings as dotted keys."""
        path = self.folder / f"{name}.toml"
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
        path.write_text("".join(lines))
        return path

    def process(
        self,
        words: Sequence[str],
        name: str,
        *,
        inside: Sequence[str] = (),
        clock: Path | None = None,
        children: int = 0,
    ) -> Process:
        """Start one of our commands; `inside` are words that run it somewhere else.

        `children` says how many a worker starts at once, which is one at least.
        """
        children = children or int(words[0] in ("worker", "calculator"))
        env = {"SHUNTER_WITNESS": str(self.witness)}
        if clock is not None:
            env["SHUNTER_TEST_CLOCK"] = str(clock)
            env["PYTHONPATH"] = os.pathsep.join(
                [str(Path(__file__).parent / "skewed"), os.environ.get("PYTHONPATH", "")]
            )
        process = Process(words, self.folder, name, env, inside=inside, children=children)
        self._processes.append(process)
        return process

    def dispatcher(
        self, name: str = "dispatcher", *, clock_ahead: float | None = None, **settings: Any
    ) -> Station:
        """Start a dispatcher; settings are dotted keys with `__` for the dot."""
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        station = Station(self, name, dotted)
        if clock_ahead is not None:
            station.set_clock(ahead=clock_ahead)
        return station.start()

    def worker(
        self,
        *stations: Station,
        slots: int = 2,
        backends: Sequence[str] = (),
        inside: Sequence[str] = (),
        app: str = WITNESS_APP,
        **settings: Any,
    ) -> Process:
        """Start a worker, mostly of the witness app, under the lease of its first dispatcher."""
        self._count += 1
        name = f"worker-{self._count}"
        lease = {k: v for k, v in stations[0].settings.items() if k.startswith("lease.")}
        config = self.config(
            name,
            {
                "worker.dispatchers": list(backends) or [s.backend for s in stations],
                "worker.max_jobs": slots,
                **lease,
                **{key.replace("__", "."): value for key, value in settings.items()},
            },
        )
        words = ("worker", "--app", app, "--config", str(config))
        return self.process(words, name, inside=inside, children=slots)

    def http_worker(
        self,
        *stations: Station,
        slots: int = 2,
        host: str = "127.0.0.1",
        via: Sequence[str] = (),
        inside: Sequence[str] = (),
        app: str = WITNESS_APP,
        **settings: Any,
    ) -> Process:
        """Start a worker of the witness app that knows only HTTP; `via` are dispatchers' URLs."""
        self._count += 1
        name = f"http-worker-{self._count}"
        config = self.config(
            name,
            {
                "worker.http.host": host,
                "worker.http.dispatchers": list(via) or [station.url for station in stations],
                "worker.max_jobs": slots,
                **{key.replace("__", "."): value for key, value in settings.items()},
            },
        )
        words = ("worker", "--http", "--app", app, "--config", str(config))
        return self.process(words, name, inside=inside, children=slots)

    def client(self, *stations: Station) -> Client:
        client = Client(*(station.frontend for station in stations), timeout=PATIENCE)
        self._clients.append(client)
        return client

    def shunter(
        self, *words: str, station: Station | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        where = ["--dispatcher", station.frontend] if station else []
        return fork_server.run([*words, *where], folder=self.folder, within=2 * PATIENCE)

    def processes(self, name: str) -> list[Process]:
        """Return the processes that run, whose names begin so."""
        return [it for it in self._processes if it.name.startswith(name) and it.is_alive]

    def close(self) -> None:
        """End everything; what crashed by itself is a failure of the test."""
        for client in self._clients:
            client.close()
        for process in self._processes:
            if process.is_alive:
                process.signal(signal.SIGCONT)
                process.kill()
        crashed = [p.name for p in self._processes if "Traceback (most recent" in p.said()]
        assert crashed == [], "\n".join(p.said()[-3000:] for p in self._processes)
