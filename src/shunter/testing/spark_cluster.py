"""A real standalone cluster of Spark's for tests: a master and some workers, on loopback.

They come from the PySpark package that is installed. Each is a process group of its own, in which
its executors are too, so that a worker can be killed as a host that fails would be.
Blocking: made for fixtures and benchmarks, not for an event loop.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from shunter.errors import ShunterError
from shunter.testing.quick_java import BRIEF
from shunter.testing.servers import free_port, launch

START_SECONDS = 60.0

_DAEMONS = "org.apache.spark.deploy"
KEPT = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "TMPDIR", "LANG")


class SparkClusterFailed(ShunterError):
    """The cluster did not come up."""


class LocalSparkCluster:
    """One master and so many workers, each with one core and a gigabyte for executors.

    Work and logs are in `folder`. `environ` is what processes there have beside the path: nothing
    of this process's own gets to executors by it, PYTHONPATH neither. `wrapper` is a command that
    starts the commands of workers, such as one that gives each another view of the disk.
    """

    def __init__(
        self,
        folder: Path,
        workers: int = 2,
        *,
        environ: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self._folder, self._count, self._wrapper = folder, workers, wrapper
        self._environ = environ or {}
        self._port, self._web_port = free_port(), free_port()
        # The kernel ends servers with the thread that started them, so that is one which stays.
        self._parent = ThreadPoolExecutor(1, "Spark's parent")
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What `--master` takes."""
        return f"spark://127.0.0.1:{self._port}"

    def start(self) -> Self:
        """Start all, and return once the workers are registered."""
        try:
            self.master = self._start("master", self._master_options())
            self._await(lambda: self.standing() is not None, "the master does not answer")
            for _ in range(self._count):
                self.add_worker()
            self._await(lambda: self.alive_workers == self._count, "workers are missing")
        except BaseException:
            self.stop()
            raise
        return self

    def add_worker(self) -> None:
        """Start one worker more, without waiting for it."""
        name = f"worker-{len(self.workers)}"
        options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        options += ["--work-dir", str(self._folder / name), self.url]
        self.workers.append(self._start(name, [f"{_DAEMONS}.worker.Worker", *options]))

    def kill_worker(self, number: int) -> None:
        """End a worker and its executors at once, as a power cut would."""
        _kill_group(self.workers[number])

    def stop(self) -> None:
        for process in [*self.workers, *([self.master] if self.master else [])]:
            _kill_group(process)
        self._parent.shutdown()

    def standing(self) -> dict[str, Any] | None:
        """What the master says of its cluster, None where it says nothing."""
        try:
            url = f"http://127.0.0.1:{self._web_port}/json/"
            with urllib.request.urlopen(url, timeout=5.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError):
            return None

    @property
    def alive_workers(self) -> int:
        return int((self.standing() or {}).get("aliveworkers", 0))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _master_options(self) -> list[str]:
        ports = ["--port", str(self._port), "--webui-port", str(self._web_port)]
        return [f"{_DAEMONS}.master.Master", "--host", "127.0.0.1", *ports]

    def _start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        home = spark_home()
        wrapper = self._wrapper if name.startswith("worker") else ()
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        environ = {key: os.environ[key] for key in KEPT if key in os.environ}
        environ = (
            {"JAVA_TOOL_OPTIONS": BRIEF}
            | environ
            | {
                "SPARK_HOME": str(home),
                "SPARK_CONF_DIR": str(folder / "none"),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(folder),
                "SPARK_DAEMON_MEMORY": "256m",
                **self._environ,
            }
        )
        with open(self._log_of(name), "ab") as log:
            return self._parent.submit(
                launch,
                [*wrapper, str(home / "bin" / "spark-class"), *words],
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environ,
                start_new_session=True,
            ).result()

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _await(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                logs = {path.name: path.read_text()[-500:] for path in self._folder.glob("*.log")}
                raise SparkClusterFailed(f"Spark's cluster: {what} in {START_SECONDS:g} s; {logs}")
            time.sleep(0.1)


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkClusterFailed("PySpark is missing; type: pip install 'shunter[spark]'")
    return Path(found.origin).parent


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
