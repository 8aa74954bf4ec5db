"""A pool of real child processes, driven from a synchronous test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from shunter.app import load_app, payload_of
from shunter.model.report import Advance, Held, Report
from shunter.wire.messages import Assignment
from shunter.worker.pool.process_pool import PoolSettings, ProcessPool

APP = f"{Path(__file__).parent / 'pool_app.py'}:app"
PATIENCE = 40.0


class Foreman:
    """Gives jobs to a pool and waits for what they come to."""

    def __init__(self, settings: PoolSettings, spec: str = APP) -> None:
        self.pool = ProcessPool(spec, load_app(APP), settings, on_output=self._collect)
        self.reports: dict[str, Report] = {}
        self.advances: list[Advance] = []
        self.doubles: list[Report] = []
        self._count = 0
        self._news = asyncio.Event()

    def _collect(self) -> None:
        reports, advances = self.pool.take_output()
        for report in reports:
            if report.job_id in self.reports:
                self.doubles.append(report)
            self.reports[report.job_id] = report
        self.advances += advances
        self._news.set()

    def assign(self, job_type: str, *args: Any, timeout: float | None = None, **kw: Any) -> Held:
        """Give one job and return what it is held as."""
        self._count += 1
        job = Assignment(
            f"job-{self._count}", 1, job_type, payload_of(*args, **kw), timeout, f"run-{job_type}"
        )
        self.pool.give([job])
        return Held(job.job_id, job.attempt)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.002)

    async def outcome(self, held: Held) -> Report:
        await self.until(lambda: held.job_id in self.reports)
        return self.reports[held.job_id]

    async def result(self, held: Held) -> Any:
        report = await self.outcome(held)
        assert report.error is None, report.error
        assert report.result is not None
        return msgspec.msgpack.decode(report.result)

    async def do(self, job_type: str, *args: Any, **kw: Any) -> Any:
        return await self.result(self.assign(job_type, *args, **kw))

    async def begun(self, held: Held, marker: Path) -> None:
        """Wait until a handler has touched its marker."""
        await self.until(marker.exists)

    def may_end(self, marker: Path) -> None:
        """Let a handler end that has touched its marker and rests."""
        Path(f"{marker}.enough").touch()

    def pids(self) -> list[int]:
        return [slot.pid for slot in self.pool._supervisor.slots]

    def ready(self) -> list[int]:
        return [slot.pid for slot in self.pool._supervisor.slots if slot.is_ready]


Scenario = Callable[[Foreman], Awaitable[None]]
Drive = Callable[..., None]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """True if a process does anything; one that nobody has reaped does not."""
    return state_of(pid) not in ("", "Z")


def state_of(pid: int) -> str:
    """Return the letter that the kernel has for what a process does, or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
