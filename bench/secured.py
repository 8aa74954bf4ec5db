"""What keys cost: the same jobs with CURVE and tokens on, and without, in turns.

Two real dispatchers on SQLite files, each with a worker of two slots; one of them demands keys of
its worker and clients. Over ZeroMQ jobs are submitted and their results taken; over HTTP jobs are
posted, which are stored and wait.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.bench_app import echo
from bench.posting import load
from bench.stage import Dispatcher, Stage, conclude, say, sizes
from shunter import AsyncClient
from shunter.cli.key_administration import KeyAdministration
from shunter.key_file import read_key_file
from shunter.model.key import Role

WARM_UP = 500


async def _jobs_per_second(frontend: str, key_file: Path | None, jobs: int) -> float:
    async with AsyncClient(frontend, key_file=key_file) as client:
        began = time.perf_counter()
        submitted = await client.submit_many(echo, range(jobs))
        results = [await job.result(timeout=60.0) for job in submitted]
        took = time.perf_counter() - began
    assert results == list(range(jobs))
    return jobs / took


def main() -> None:
    chosen = sizes(__doc__ or "", jobs=30_000, seconds=3, rounds=5)
    with Stage() as stage:
        files = {role: stage.folder / f"{role}.key" for role in ("dispatcher", "client", "worker")}
        store = f"sqlite:///{stage.folder / 'secured.db'}"
        keys = KeyAdministration(store, None)
        for role, path in files.items():
            keys.make(role, Role(role), types=(), namespace="", path=path)
        sides = {
            "open": (Dispatcher(stage, "open").ready(), None),
            "secured": (
                Dispatcher(stage, "secured", store, key_file=files["dispatcher"]).ready(),
                files["client"],
            ),
        }
        sides["open"][0].start_worker()
        sides["secured"][0].start_worker(key_file=files["worker"])
        token = read_key_file(str(files["client"])).token
        runs: dict[str, dict[str, list[float]]] = {name: {"zmq": [], "http": []} for name in sides}
        for dispatcher, key in sides.values():
            asyncio.run(_jobs_per_second(dispatcher.frontend, key, WARM_UP))
        for number in range(chosen.rounds):
            for name, (dispatcher, key) in sides.items():
                say(f"jobs, {name}", number, chosen.rounds)
                speed = asyncio.run(_jobs_per_second(dispatcher.frontend, key, chosen.jobs))
                runs[name]["zmq"].append(speed)
        for number in range(chosen.rounds):
            for name, (dispatcher, key) in sides.items():
                say(f"POSTs, {name}", number, chosen.rounds)
                posted = load(dispatcher.port, chosen.seconds, token if key else "")
                runs[name]["http"].append(posted["per_second"])
    found: dict[str, Any] = {
        f"{name}_{by}": median(speeds) for name, ways in runs.items() for by, speeds in ways.items()
    }
    conclude(**found, runs=runs)


if __name__ == "__main__":
    main()
