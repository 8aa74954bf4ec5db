"""The watchdog: children end in time though their parent is frozen, and with all they started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shunter.model.job import ErrorKind
from shunter.worker.pool.watchdog import lease_clock
from system.pool.foreman import APP, PATIENCE, Drive, Foreman, is_running, state_of

PARENT = """
import asyncio, os, sys
from shunter.app import load_app, payload_of
from shunter.wire.messages import Assignment
from shunter.worker.pool.process_pool import ProcessPool, PoolSettings
from shunter.worker.pool.watchdog import lease_clock

async def main():
    spec, job_type, marker, seconds = sys.argv[1:]
    pool = ProcessPool(spec, load_app(spec), PoolSettings(slots=1), on_output=lambda: None)
    await pool.start()
    pool.give([Assignment("a", 1, job_type, payload_of(marker), None, None)])
    slot, = pool._supervisor.slots
    while not os.path.exists(marker):
        await asyncio.sleep(0.005)
    if float(seconds):
        pool.end_by(lease_clock() + float(seconds))
    print(slot.pid, pool._watchdog.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""

Family = tuple[subprocess.Popen[str], int, int]


@contextlib.contextmanager
def family(job_type: str, marker: Path, *, end_after: float = 0.0) -> Iterator[Family]:
    """Yield a parent, and the ids of its child, which is at work, and of its watchdog."""
    command = [sys.executable, "-c", PARENT, APP, job_type, str(marker), str(end_after)]
    group = {"process_group": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **group) as parent:  # type: ignore[call-overload]
        assert parent.stdout is not None
        child, watchdog = map(int, parent.stdout.readline().split())
        try:
            yield parent, child, watchdog
        finally:
            parent.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("job_type", ["stubborn", "keep_the_lock", "fork_and_wait"])
@pytest.mark.parametrize("whom", ["the parent", "its group"])
def test_the_children_of_a_frozen_parent_end_at_their_deadline(
    tmp_path: Path, job_type: str, whom: str
) -> None:
    def seconds_too_long(marker: Path) -> float:
        with family(job_type, marker, end_after=2.5) as (parent, child, _):
            end_by = lease_clock() + 2.5
            freeze = os.killpg if whom == "its group" else os.kill
            freeze(parent.pid, signal.SIGSTOP)
            wait_for(lambda: state_of(parent.pid) == "T")
            forked = [int(marker.read_text())] if job_type == "fork_and_wait" else []
            assert is_running(child)

            wait_for(lambda: not any(map(is_running, [child, *forked])))

            return lease_clock() - end_by

    markers = (tmp_path / str(number) for number in range(4))
    assert any(seconds_too_long(marker) < 1.0 for marker in markers)  # on a busy machine not always


@pytest.mark.parametrize("job_type", ["fork_and_wait", "fork_far_and_wait", "start_child_and_hang"])
def test_what_a_handler_forked_ends_when_the_parent_is_killed(
    tmp_path: Path, job_type: str
) -> None:
    marker = tmp_path / "pid"
    with family(job_type, marker) as (parent, child, watchdog):
        forked = int(marker.read_text())
        assert is_running(forked)
        parent.kill()

        wait_for(lambda: not any(map(is_running, [child, forked, watchdog])))


def test_a_killed_watchdog_is_replaced_and_does_its_duty(drive: Drive, tmp_path: Path) -> None:
    marker = tmp_path / "began"

    async def scenario(foreman: Foreman) -> None:
        watchdog = foreman.pool._watchdog
        first = watchdog.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await foreman.until(lambda: watchdog.pid not in (first, None))
        job = foreman.assign("stubborn", str(marker))
        await foreman.begun(job, marker)
        foreman.pool.end_by(lease_clock())
        report = await foreman.outcome(job)

        assert report.error is not None
        assert report.error.kind is ErrorKind.LOST
        assert "lease was over" in report.error.message
        foreman.pool.end_by(None)
        assert await foreman.do("add", 1, 1) == 2

    drive(scenario)


def test_children_live_while_the_deadline_is_moved_on(drive: Drive) -> None:
    async def scenario(foreman: Foreman) -> None:
        before = foreman.pids()
        job = foreman.assign("nap", 1.5)
        while job.job_id not in foreman.reports:
            foreman.pool.end_by(lease_clock() + 1.0)
            await asyncio.sleep(0.02)

        assert await foreman.result(job) == "rested"
        assert foreman.pids() == before

    drive(scenario)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP])
def test_the_watchdog_outlasts_signals_that_are_sent_to_everyone(
    drive: Drive, number: signal.Signals
) -> None:
    async def scenario(foreman: Foreman) -> None:
        watchdog = foreman.pool._watchdog.pid
        assert watchdog is not None
        assert await foreman.do("add", 1, 1) == 2
        time.sleep(0.3)
        os.kill(watchdog, number)
        time.sleep(0.2)

        assert state_of(watchdog) in ("S", "R")

    drive(scenario)
