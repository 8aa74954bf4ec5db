"""Engines in processes of their own, and flows that run on them."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shunter.flow.runners.engines.network import engine_endpoint
from system import fork_server
from system.yard import until

COUNTING = str(Path(__file__).with_name("counting_flow.py"))


class EngineProcess:
    """One `shunter engine`; `inside` are the words that run it on another host."""

    def __init__(
        self,
        folder: Path,
        node: int,
        nodes: int,
        *,
        listen: str = "",
        inside: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
    ) -> None:
        self.log = folder / f"engine-{node}-{os.urandom(3).hex()}.log"
        self._ready = self.log.with_suffix(".ready")
        listen = listen or engine_endpoint(os.urandom(4).hex())
        words = ["engine", "--node", str(node)]
        words += ["--nodes", str(nodes), "--listen", listen, "--ready", str(self._ready)]
        words += [] if listen.startswith("ipc://") else ["--insecure"]
        with self.log.open("wb") as log:
            self.process = fork_server.start(
                words,
                folder=Path.cwd(),
                environ=environ,
                inside=inside,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )

    @property
    def endpoint(self) -> str:
        until(self._ready.exists, what=f"an engine: {self.log.read_text()}")
        return str(json.loads(self._ready.read_text())["endpoint"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def engines(folder: Path, count: int, **how: Any) -> Iterator[list[EngineProcess]]:
    started = [EngineProcess(folder, node, count, **how) for node in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.kill()


def numbers_file(folder: Path, count: int) -> None:
    (folder / "numbers.jsonl").write_text("".join(f"{n}\n" for n in range(count)))


def sums_in(folder: Path) -> dict[int, list[tuple[int, int]]]:
    """What the flow has written: by key, count and total, in order of the counts."""
    found = defaultdict(list)
    for path in sorted(folder.glob("sums*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            found[row["key"]].append((row["count"], row["total"]))
    return {key: sorted(rows) for key, rows in found.items()}


def is_complete(found: dict[int, list[tuple[int, int]]], count: int, keys: int = 100) -> bool:
    """True if each number was added once: counts have no gap, and the last total is right."""
    return all(
        [number for number, _ in found.get(key, [])] == list(range(1, count // keys + 1))
        and max(total for _, total in found[key]) == sum(range(key, count, keys))
        for key in range(keys)
    )


class InBackground(threading.Thread):
    """Calls a function, and has its result or its error."""

    def __init__(self, function: Any) -> None:
        super().__init__(daemon=True)
        self._function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error

    def outcome(self, within: float) -> Any:
        self.join(within)
        assert not self.is_alive(), "it is not done yet"
        if self.error is not None:
            raise self.error
        return self.result
