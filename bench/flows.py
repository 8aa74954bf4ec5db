"""A flow of running sums: in one process, on two engines, in Bytewax, and in a bare loop.

All in turns, for the machine changes by the minute. Then how long an event takes from source to
sink when 10,000 come each second, and what ten times as many events do to the engines' memory.
Processes are up, and the flow is loaded, before the clock starts: it runs from the first event
that the source gives to the last that a sink has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench import peers
from bench.stage import REPOSITORY, Stage, conclude, listen, percentile, say, sizes
from shunter.flow.loader import load
from shunter.flow.runners.engines.deployer import FlowRun
from shunter.flow.runners.engines.local_engines import LocalEngines

FLOW = str(REPOSITORY / "bench" / "flow_of_sums.py")
ENGINES = 2
RATE = 10_000


@contextmanager
def _environment(folder: Path, events: int, rate: int) -> Iterator[None]:
    os.environ.update(BENCH_EVENTS=str(events), BENCH_RATE=str(rate), BENCH_NOTES=str(folder))
    yield


def _notes(folder: Path, events: int) -> dict[str, Any]:
    began = json.loads((folder / "source.json").read_text())["began"]
    sinks = [json.loads(path.read_text()) for path in folder.glob("sink-*.json")]
    assert sum(sink["count"] for sink in sinks) == events, "events are missing or double"
    took = max(sink["ended"] for sink in sinks) - began
    return {"took": took, "waits": [wait for sink in sinks for wait in sink["waits"]]}


def _in_one_process(stage: Stage, events: int) -> float:
    folder = _folder(stage, "local")
    with _environment(folder, events, 0):
        command = [sys.executable, "-m", "shunter", "flow", "run", FLOW, "--on", "local", "--json"]
        subprocess.run(command, check=True, capture_output=True, cwd=REPOSITORY)
    return events / _notes(folder, events)["took"]


def _on_engines(stage: Stage, events: int, rate: int = 0) -> dict[str, Any]:
    folder = _folder(stage, "engines")
    with _environment(folder, events, rate), LocalEngines(ENGINES, folder) as engines:
        memory = _Memory([process.pid for process in engines.processes])
        FlowRun(load(FLOW), FLOW, engines.endpoints, keeper=engines).run()
        peak = memory.peak()
    return {**_notes(folder, events), "peak_mb": peak}


class _Memory(threading.Thread):
    """Watches how much processes have at most, all of them together."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__(daemon=True)
        self._processes = [psutil.Process(pid) for pid in pids]
        self._most = 0
        self._is_over = False
        self.start()

    def run(self) -> None:
        while not self._is_over:
            now = sum(process.memory_info().rss for process in self._processes)
            self._most = max(self._most, now)
            time.sleep(0.05)

    def peak(self) -> float:
        self._is_over = True
        self.join()
        return self._most / 1e6


def _bytewax(events: int) -> float | None:
    try:
        peers.install("bytewax==0.21.1")
    except peers.Skipped:
        return None
    command = [peers.PYTHON, "-m", "bench.peer_bytewax", str(events)]
    *_, said = listen(command, seconds=200)
    found: float = said["figures"]["events_per_second"]
    return found


def _bare_loop(events: int) -> float:
    """What Python itself does with the same numbers."""
    totals: dict[str, int] = {}
    count = 0
    began = time.perf_counter()
    for key, number in ((f"key{n % 1000}", n) for n in range(events)):
        totals[key] = totals.get(key, 0) + number * 2
        count += 1
    assert count == events
    return events / (time.perf_counter() - began)


def _folder(stage: Stage, name: str) -> Path:
    folder = stage.folder / f"{name}-{time.monotonic_ns()}"
    folder.mkdir()
    return folder


def main() -> None:
    chosen = sizes(__doc__ or "", events=1_000_000, many=10_000_000, seconds=5, rounds=3)
    runs: dict[str, list[float]] = {}
    total, done = 4 * chosen.rounds + 3, 0
    with Stage() as stage:
        ways: dict[str, Callable[[], float | None]] = {
            "bare_loop": lambda: _bare_loop(chosen.events),
            "bytewax": lambda: _bytewax(chosen.events),
            "one_process": lambda: _in_one_process(stage, chosen.events),
            "two_engines": lambda: chosen.events / _on_engines(stage, chosen.events)["took"],
        }
        for _ in range(chosen.rounds):
            for name, measure in ways.items():
                say(name.replace("_", " "), done, total)
                if (found := measure()) is not None:
                    runs.setdefault(name, []).append(found)
                done += 1
        say("latency", done, total)
        waits = _on_engines(stage, chosen.seconds * RATE, RATE)["waits"]
        say("memory", done + 1, total)
        few = _on_engines(stage, chosen.many // 10)["peak_mb"]
        many = _on_engines(stage, chosen.many)["peak_mb"]
    conclude(
        events=chosen.events,
        many=chosen.many,
        rate=RATE,
        **{name: median(found) for name, found in runs.items()},
        p50_ms=percentile(waits, 0.5),
        p99_ms=percentile(waits, 0.99),
        few_mb=few,
        many_mb=many,
        runs=runs,
    )


if __name__ == "__main__":
    main()
