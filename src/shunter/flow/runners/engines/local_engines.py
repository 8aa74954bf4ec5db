"""Engines on this host, for one run: started, brought back when one dies, ended with the run."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from shunter.errors import FlowError
from shunter.flow.runners.engines.network import engine_endpoint

START_SECONDS = 30.0
STOP_SECONDS = 3.0
STARTS = 3


class LocalEngines:
    """So many engine processes, for this user alone. What they log goes to files in `folder`."""

    def __init__(self, count: int, folder: Path) -> None:
        self._count, self._folder = count, folder
        self._name = secrets.token_hex(4)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._endpoints: list[str] = []

    def __enter__(self) -> Self:
        try:
            self.processes = [self._start(node) for node in range(self._count)]
            self._endpoints = [self._endpoint(node) for node in range(self._count)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for node in range(self._count):  # those that were killed have left theirs
            Path(self._listen(node).removeprefix("ipc://")).unlink(missing_ok=True)

    def kill(self) -> None:
        """End the engines without waiting for what they do."""
        for process in self.processes:
            process.kill()

    @property
    def endpoints(self) -> list[str]:
        return list(self._endpoints)

    def is_alive(self, node: int) -> bool:
        return self.processes[node].poll() is None

    def restart(self, node: int) -> None:
        """Start an engine anew, and end what may be left of it."""
        for attempt in range(1, STARTS + 1):
            self.processes[node].kill()
            self.processes[node].wait()
            self.processes[node] = self._start(node)
            try:
                self._endpoints[node] = self._endpoint(node)
                break
            except FlowError:
                if attempt == STARTS:
                    raise

    def _start(self, node: int) -> subprocess.Popen[bytes]:
        self._ready(node).unlink(missing_ok=True)
        with open(self._folder / f"engine-{node}.log", "ab") as log:
            return subprocess.Popen(  # noqa: S603
                [
                    *(sys.executable, "-m", "shunter", "engine"),
                    *("--node", str(node), "--nodes", str(self._count)),
                    *("--listen", self._listen(node), "--ready", str(self._ready(node))),
                    *("--parent", str(os.getpid())),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def _listen(self, node: int) -> str:
        return engine_endpoint(f"{self._name}_{node}")

    def _ready(self, node: int) -> Path:
        return self._folder / f"engine-{node}.ready"

    def _endpoint(self, node: int) -> str:
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(node).exists():
            if self.processes[node].poll() is not None or time.monotonic() > deadline:
                log = (self._folder / f"engine-{node}.log").read_text(errors="replace")
                raise FlowError(f"engine {node} did not start:\n{log[-2000:]}")
            time.sleep(0.01)
        found: str = json.loads(self._ready(node).read_text())["endpoint"]
        return found
